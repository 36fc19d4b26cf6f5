# docker build -t nabladp . && mkdir -p demo
# docker run --rm --user "$(id -u):$(id -g)" -v "$PWD/demo:/work/demo" nabladp demo demo
FROM python:3.12-slim
COPY pyproject.toml constraints.txt README.md LICENSE /source/
COPY src /source/src
RUN pip install --no-cache-dir -c /source/constraints.txt /source && rm -rf /source \
    && useradd --create-home curator && mkdir /work && chown curator /work
USER curator
WORKDIR /work
ENTRYPOINT ["nabladp"]
CMD ["--help"]
