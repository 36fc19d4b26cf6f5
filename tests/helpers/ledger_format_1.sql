-- A ledger as version 0.3.0 wrote it, to the byte (sqlite3 .dump).
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
INSERT INTO "entries" VALUES(1,'open','ledger',NULL,'2026-11-15T18:02:14.577637+00:00','{"budget":{"per_attribute":{"rho":1.0}},"format":1,"ledger":"9de4200e-535b-4678-bfdf-2ffc4e718217","limits":[{"attributes":["age"],"name":"age","units":"1152921504606846976","value":{"rho":1.0}},{"attributes":["income"],"name":"income","units":"1152921504606846976","value":{"rho":1.0}}],"test":false,"universe":{"attributes":["age","income"],"derived":{},"public":[]}}','{"budget":1,"schema":1,"spent":{}}','0000000000000000000000000000000000000000000000000000000000000000','399c9e7123ea322c45905287e467e632d7cab37b14084fc05281baee8c105799');
INSERT INTO "entries" VALUES(2,'reserve','first',NULL,'2026-11-15T18:02:14.616045+00:00','{"details":{"folder":"x"},"guarantee":{"format":1,"terms":[{"on":["age"],"pure":false,"shape":"touch","weight":"288230376151711744"}],"unit":"2^-60","universe":{"attributes":["age","income"],"derived":{},"public":[]}},"seeded":false}','{"budget":1,"schema":1,"spent":{"0":{"rho":"288230376151711744","unbounded_pure":1}}}','399c9e7123ea322c45905287e467e632d7cab37b14084fc05281baee8c105799','bf08b99c70d62f37616ee4d112586d4f3fafb171101181cf83f773f0a9517ca8');
INSERT INTO "entries" VALUES(3,'bind','first',2,'2026-11-15T18:02:14.865274+00:00','{"details":{},"digest":"dddddddd","seeded":false}','{"budget":1,"schema":1,"spent":{"0":{"rho":"288230376151711744","unbounded_pure":1}}}','bf08b99c70d62f37616ee4d112586d4f3fafb171101181cf83f773f0a9517ca8','4cc8d12e6852c99f80d8ec6d04215f2731a2e53a3ab7ed922bb0e69d738ac67b');
INSERT INTO "entries" VALUES(4,'reserve','second',NULL,'2026-11-15T18:02:14.885371+00:00','{"details":{},"guarantee":{"format":1,"terms":[{"on":["age"],"pure":false,"shape":"touch","weight":"144115188075855872"}],"unit":"2^-60","universe":{"attributes":["age","income"],"derived":{},"public":[]}},"seeded":false}','{"budget":1,"schema":1,"spent":{"0":{"rho":"432345564227567616","unbounded_pure":2}}}','4cc8d12e6852c99f80d8ec6d04215f2731a2e53a3ab7ed922bb0e69d738ac67b','1316f5070c7b92838cda70369e9a865995c861949dea8157ccc5f482f7609e43');
INSERT INTO "entries" VALUES(5,'void','second',4,'2026-11-15T18:02:14.905192+00:00','{"reason":"never ran"}','{"budget":1,"schema":1,"spent":{"0":{"rho":"288230376151711744","unbounded_pure":1}}}','1316f5070c7b92838cda70369e9a865995c861949dea8157ccc5f482f7609e43','379545d4dc68f33bd1f108f33003745e10c363210be7fc434c4897983e1ae110');
INSERT INTO "entries" VALUES(6,'external','théirs',NULL,'2026-11-15T18:02:14.926347+00:00','{"exceeded":[],"guarantee":{"format":1,"terms":[{"on":["age"],"pure":false,"shape":"touch","weight":"144115188075855872"}],"unit":"2^-60","universe":{"attributes":["age","income"],"derived":{},"public":[]}},"note":"","who":"another office"}','{"budget":1,"schema":1,"spent":{"0":{"rho":"432345564227567616","unbounded_pure":2}}}','379545d4dc68f33bd1f108f33003745e10c363210be7fc434c4897983e1ae110','8b0cd8b9d4c1f4f594fbb0b3d886bd7623441a7218abf1cc68f3861707a55409');
INSERT INTO "entries" VALUES(7,'budget','budget',NULL,'2026-11-15T18:02:14.957189+00:00','{"budget":{"per_attribute":{"rho":2.0}},"limits":[{"attributes":["age"],"name":"age","units":"2305843009213693952","value":{"rho":2.0}},{"attributes":["income"],"name":"income","units":"2305843009213693952","value":{"rho":2.0}}],"reason":"the board agreed"}','{"budget":7,"schema":1,"spent":{"0":{"rho":"432345564227567616","unbounded_pure":2}}}','8b0cd8b9d4c1f4f594fbb0b3d886bd7623441a7218abf1cc68f3861707a55409','ab4a37805b690172f2e1bad3e3078c45f248d2f9f01e8296ee0bda25d913e0db');
INSERT INTO "entries" VALUES(8,'reserve','third',NULL,'2026-11-15T18:02:14.981586+00:00','{"details":{},"guarantee":{"format":1,"terms":[{"on":["age"],"pure":false,"shape":"touch","weight":"576460752303423488"}],"unit":"2^-60","universe":{"attributes":["age","income"],"derived":{},"public":[]}},"seeded":false}','{"budget":7,"schema":1,"spent":{"0":{"rho":"1008806316530991104","unbounded_pure":3}}}','ab4a37805b690172f2e1bad3e3078c45f248d2f9f01e8296ee0bda25d913e0db','ddacf4979530a3727fa8490c3c6fc89b3e2c68e32f96b0f868d679e49dfb43d7');
CREATE TABLE head (
	id INTEGER NOT NULL CHECK (id = 1),
	seq INTEGER NOT NULL,
	hash TEXT NOT NULL,
	PRIMARY KEY (id)
);
INSERT INTO "head" VALUES(1,8,'ddacf4979530a3727fa8490c3c6fc89b3e2c68e32f96b0f868d679e49dfb43d7');
CREATE TABLE meta (
	id INTEGER NOT NULL CHECK (id = 1),
	format INTEGER NOT NULL,
	ledger TEXT NOT NULL,
	created TEXT NOT NULL,
	PRIMARY KEY (id)
);
INSERT INTO "meta" VALUES(1,1,'9de4200e-535b-4678-bfdf-2ffc4e718217','2026-11-15T18:02:14.564317+00:00');
CREATE UNIQUE INDEX entry_names ON entries (name) WHERE kind IN ('reserve', 'external');
CREATE INDEX entry_kinds ON entries (kind, seq);
CREATE UNIQUE INDEX entry_ends ON entries (ref);
CREATE TRIGGER entries_no_UPDATE BEFORE UPDATE ON entries BEGIN SELECT RAISE(ABORT, 'the ledger only grows'); END;
CREATE TRIGGER entries_no_DELETE BEFORE DELETE ON entries BEGIN SELECT RAISE(ABORT, 'the ledger only grows'); END;
CREATE TRIGGER meta_no_UPDATE BEFORE UPDATE ON meta BEGIN SELECT RAISE(ABORT, 'the ledger only grows'); END;
CREATE TRIGGER meta_no_DELETE BEFORE DELETE ON meta BEGIN SELECT RAISE(ABORT, 'the ledger only grows'); END;
CREATE TRIGGER head_no_DELETE BEFORE DELETE ON head BEGIN SELECT RAISE(ABORT, 'the ledger only grows'); END;
CREATE TRIGGER entries_in_order BEFORE INSERT ON entries WHEN NEW.seq <> (SELECT coalesce(max(seq), 0) + 1 FROM entries) BEGIN SELECT RAISE(ABORT, 'the ledger only grows'); END;
CREATE TRIGGER head_in_step BEFORE UPDATE ON head WHEN NEW.seq <> OLD.seq + 1 OR NOT EXISTS (SELECT 1 FROM entries WHERE seq = NEW.seq AND hash = NEW.hash AND previous = OLD.hash) BEGIN SELECT RAISE(ABORT, 'the head only moves to the next entry'); END;
COMMIT;
