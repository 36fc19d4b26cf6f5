-- A ledger as version 0.6.0 wrote it, to the byte (sqlite3 .dump).
BEGIN TRANSACTION;
CREATE TABLE entries (
	seq INTEGER NOT NULL,
	kind TEXT NOT NULL,
	name TEXT NOT NULL,
	ref INTEGER,
	time TEXT NOT NULL,
	payload TEXT NOT NULL,
	totals TEXT NOT NULL,
	previous TEXT NOT NULL,
	hash TEXT NOT NULL,
	PRIMARY KEY (seq)
);
INSERT INTO "entries" VALUES(1,'open','ledger',NULL,'2026-11-16T09:09:10.672398+00:00','{"budget":{"per_attribute":{"rho":1.0}},"format":2,"ledger":"2e8016c3-1cad-469f-b617-35e906abe187","limits":[{"attributes":["age"],"name":"age","units":"1152921504606846976","value":{"rho":1.0}},{"attributes":["income"],"name":"income","units":"1152921504606846976","value":{"rho":1.0}}],"test":false,"ticket":"1b9ed003a4594d1baeca28a15bf5e838","universe":{"attributes":["age","income"],"derived":{},"public":[]}}','{"budget":1,"schema":1,"spent":{}}','0000000000000000000000000000000000000000000000000000000000000000','f1d1fe751997fb5e837e1dcbed82104ef4ae98e04a72d10ff66a1d0d21e0c67a');
INSERT INTO "entries" VALUES(2,'reserve','first',NULL,'2026-11-16T09:09:10.682336+00:00','{"details":{"folder":"x"},"guarantee":{"format":1,"terms":[{"on":["age"],"pure":false,"shape":"touch","weight":"288230376151711744"}],"unit":"2^-60","universe":{"attributes":["age","income"],"derived":{},"public":[]}},"seeded":false,"ticket":"c9cd5528de16475f82a133cf384a63aa"}','{"budget":1,"schema":1,"spent":{"0":{"rho":"288230376151711744","unbounded_pure":1}}}','f1d1fe751997fb5e837e1dcbed82104ef4ae98e04a72d10ff66a1d0d21e0c67a','7755d3de066217c7504772fc4927c8a40983608fc2a2ecfa1ae9abedd1066f99');
INSERT INTO "entries" VALUES(3,'bind','first',2,'2026-11-16T09:09:10.833642+00:00','{"details":{},"digest":"digest","seeded":false,"ticket":"ce4c1e87187c44b8ae1fb0c4dc1d06d6"}','{"budget":1,"schema":1,"spent":{"0":{"rho":"288230376151711744","unbounded_pure":1}}}','7755d3de066217c7504772fc4927c8a40983608fc2a2ecfa1ae9abedd1066f99','840ecb5c51c66d69728e70951ff3a13b90876e60c83f83e0ab8c0eb6c79f5265');
INSERT INTO "entries" VALUES(4,'reserve','second',NULL,'2026-11-16T09:09:10.839429+00:00','{"details":{},"guarantee":{"format":1,"terms":[{"on":["age"],"pure":false,"shape":"touch","weight":"288230376151711744"}],"unit":"2^-60","universe":{"attributes":["age","income"],"derived":{},"public":[]}},"seeded":false,"ticket":"9f0449284d0543c99c00bccaaae20c73"}','{"budget":1,"schema":1,"spent":{"0":{"rho":"576460752303423488","unbounded_pure":2}}}','840ecb5c51c66d69728e70951ff3a13b90876e60c83f83e0ab8c0eb6c79f5265','e609d3bf4dcd9c98932ce4c4102d67ebd464823d534d7774e452a6c88b49a85d');
INSERT INTO "entries" VALUES(5,'void','second',4,'2026-11-16T09:09:10.847174+00:00','{"reason":"never ran","ticket":"f90518fc73b448ff85d5cdbc08a8dd7a"}','{"budget":1,"schema":1,"spent":{"0":{"rho":"288230376151711744","unbounded_pure":1}}}','e609d3bf4dcd9c98932ce4c4102d67ebd464823d534d7774e452a6c88b49a85d','3a90124b9397dac7d5dc41c993551e13be99210db724b9019b7c7436101c5286');
INSERT INTO "entries" VALUES(6,'external','theirs',NULL,'2026-11-16T09:09:10.852050+00:00','{"exceeded":[],"guarantee":{"format":1,"terms":[{"on":["age"],"pure":false,"shape":"touch","weight":"576460752303423488"}],"unit":"2^-60","universe":{"attributes":["age","income"],"derived":{},"public":[]}},"note":"2025","ticket":"7ffb20b546c546df8c998c6af6063a9c","who":"another office"}','{"budget":1,"schema":1,"spent":{"0":{"rho":"864691128455135232","unbounded_pure":2}}}','3a90124b9397dac7d5dc41c993551e13be99210db724b9019b7c7436101c5286','91fd5e0e249cb1fc71a5f7a7bd0ea49b37ceb7e7c4975a3f90c90ca64f1eaa1c');
INSERT INTO "entries" VALUES(7,'budget','budget',NULL,'2026-11-16T09:09:10.857457+00:00','{"budget":{"per_attribute":{"rho":2.0},"sets":{"age+income":{"rho":3.0}}},"limits":[{"attributes":["age"],"name":"age","units":"2305843009213693952","value":{"rho":2.0}},{"attributes":["income"],"name":"income","units":"2305843009213693952","value":{"rho":2.0}},{"attributes":["age","income"],"name":"age+income","units":"3458764513820540928","value":{"rho":3.0}}],"reason":"the board agreed","ticket":"6c93cddb77e846e5b2ccf10b27692537"}','{"budget":7,"schema":1,"spent":{"*":{"rho":"864691128455135232","unbounded_pure":2},"0":{"rho":"864691128455135232","unbounded_pure":2}}}','91fd5e0e249cb1fc71a5f7a7bd0ea49b37ceb7e7c4975a3f90c90ca64f1eaa1c','a9890ed67ea6d2527ea0d46dd17c34dd39878de73b3d6a92183e7c7ca93aedbc');
INSERT INTO "entries" VALUES(8,'schema','schema',NULL,'2026-11-16T09:09:10.869815+00:00','{"ticket":"85239858c3d04869ba1294beea2219f5","universe":{"attributes":["age","income"],"derived":{"age_band":["age"]},"public":[]}}','{"budget":7,"schema":8,"spent":{"*":{"rho":"864691128455135232","unbounded_pure":2},"0":{"rho":"864691128455135232","unbounded_pure":2}}}','a9890ed67ea6d2527ea0d46dd17c34dd39878de73b3d6a92183e7c7ca93aedbc','d6741def31aff0f2d6cd1f299522d11f51cf4a196660429c43c6ae93ec1de433');
INSERT INTO "entries" VALUES(9,'reserve','third',NULL,'2026-11-16T09:09:10.869815+00:00','{"details":{"folder":"y"},"guarantee":{"format":1,"terms":[{"on":["age"],"pure":false,"shape":"touch","weight":"144115188075855872"}],"unit":"2^-60","universe":{"attributes":["age","income"],"derived":{"age_band":["age"]},"public":[]}},"seeded":false,"ticket":"85239858c3d04869ba1294beea2219f5"}','{"budget":7,"schema":8,"spent":{"*":{"rho":"1008806316530991104","unbounded_pure":3},"0":{"rho":"1008806316530991104","unbounded_pure":3}}}','d6741def31aff0f2d6cd1f299522d11f51cf4a196660429c43c6ae93ec1de433','37d26fd6d1f6a5f610fe0a36b7e0e2370ce1773bdeea8e257a3a77d3508bd25a');
CREATE TABLE head (
	id INTEGER NOT NULL CHECK (id = 1),
	seq INTEGER NOT NULL,
	hash TEXT NOT NULL,
	PRIMARY KEY (id)
);
INSERT INTO "head" VALUES(1,9,'37d26fd6d1f6a5f610fe0a36b7e0e2370ce1773bdeea8e257a3a77d3508bd25a');
CREATE TABLE meta (
	id INTEGER NOT NULL CHECK (id = 1),
	format INTEGER NOT NULL,
	ledger TEXT NOT NULL,
	created TEXT NOT NULL,
	PRIMARY KEY (id)
);
INSERT INTO "meta" VALUES(1,2,'2e8016c3-1cad-469f-b617-35e906abe187','2026-11-16T09:09:10.666059+00:00');
CREATE UNIQUE INDEX entry_ends ON entries (ref);
CREATE UNIQUE INDEX entry_names ON entries (name) WHERE kind IN ('reserve', 'external');
CREATE INDEX entry_kinds ON entries (kind, seq);
CREATE TRIGGER entries_no_UPDATE BEFORE UPDATE ON entries BEGIN SELECT RAISE(ABORT, 'the ledger only grows'); END;
CREATE TRIGGER entries_no_DELETE BEFORE DELETE ON entries BEGIN SELECT RAISE(ABORT, 'the ledger only grows'); END;
CREATE TRIGGER meta_no_UPDATE BEFORE UPDATE ON meta BEGIN SELECT RAISE(ABORT, 'the ledger only grows'); END;
CREATE TRIGGER meta_no_DELETE BEFORE DELETE ON meta BEGIN SELECT RAISE(ABORT, 'the ledger only grows'); END;
CREATE TRIGGER head_no_DELETE BEFORE DELETE ON head BEGIN SELECT RAISE(ABORT, 'the ledger only grows'); END;
CREATE TRIGGER meta_no_second BEFORE INSERT ON meta WHEN EXISTS (SELECT 1 FROM meta) BEGIN SELECT RAISE(ABORT, 'the ledger only grows'); END;
CREATE TRIGGER head_no_second BEFORE INSERT ON head WHEN EXISTS (SELECT 1 FROM head) BEGIN SELECT RAISE(ABORT, 'the ledger only grows'); END;
CREATE TRIGGER entries_in_order BEFORE INSERT ON entries WHEN NOT EXISTS (SELECT 1 FROM head WHERE seq = NEW.seq - 1 AND hash = NEW.previous) OR EXISTS (SELECT 1 FROM entries WHERE seq = NEW.seq OR ref = NEW.ref) OR (NEW.kind IN ('reserve', 'external') AND EXISTS (SELECT 1 FROM entries WHERE name = NEW.name AND kind IN ('reserve', 'external'))) BEGIN SELECT RAISE(ABORT, 'the ledger only grows'); END;
CREATE TRIGGER head_in_step BEFORE UPDATE ON head WHEN NEW.seq <> OLD.seq + 1 OR NOT EXISTS (SELECT 1 FROM entries WHERE seq = NEW.seq AND hash = NEW.hash AND previous = OLD.hash) BEGIN SELECT RAISE(ABORT, 'the head only moves to the next entry'); END;
CREATE TRIGGER head_follows AFTER INSERT ON entries BEGIN UPDATE head SET seq = NEW.seq, hash = NEW.hash; END;
COMMIT;
