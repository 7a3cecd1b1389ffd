# For macOS and Windows, or a Linux that lacks something. The commands are docs/installing.md's own.
#
#     docker build --platform linux/amd64 -t jitkernel .
#     docker run --rm -it -p 127.0.0.1:8888:8888 jitkernel
#
# Any other command stands behind the last: `docker run --rm -it jitkernel make test`.
FROM debian:bookworm-slim

# Python for all of it, make for its commands; as and ld for the tests that compare with them.
RUN apt-get update \
    && apt-get install -y --no-install-recommends binutils ca-certificates gcc libc6-dev make python3 python3-venv \
    && rm -rf /var/lib/apt/lists/*

RUN useradd --create-home student
USER student
WORKDIR /home/student/jitkernel
COPY --chown=student:student . .

RUN make tour
RUN make .venv/.lab

EXPOSE 8888
CMD ["make", "lab", "LAB_ARGS=--ip=0.0.0.0 --no-browser"]
