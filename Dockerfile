# Builds the manager and the viewer as static binaries, each in an image without a shell or a libc.
# The manager is the default target; `--target viewer` builds the other. GO_IMAGE needs only Go: no
# command here uses a shell.
ARG GO_IMAGE=golang:1.26
# BuildKit sets it. Other builders need it as a build argument.
ARG BUILDPLATFORM
FROM --platform=$BUILDPLATFORM ${GO_IMAGE} AS build
ARG TARGETOS
ARG TARGETARCH
WORKDIR /src

# The modules are a layer of their own, so a change of code does not fetch them
# again.
COPY go.mod go.sum ./
# go.mod names these modules by their paths.
COPY api/go.mod api/go.sum api/
COPY runners/election/go.mod runners/election/go.sum runners/election/
RUN ["go", "mod", "download"]

COPY *.go ./
COPY api/ api/
COPY controllers/ controllers/
COPY runners/ runners/
ENV CGO_ENABLED=0 GOOS=${TARGETOS} GOARCH=${TARGETARCH}
RUN ["go", "build", "-trimpath", "-ldflags=-s -w", "-o", "/manager", "."]
RUN ["go", "build", "-trimpath", "-ldflags=-s -w", "-o", "/viewer", "./controllers/markdownview/viewer"]

FROM scratch AS viewer
COPY --from=build /viewer /viewer
USER 65532:65532
EXPOSE 3000
ENTRYPOINT ["/viewer"]

FROM scratch AS manager
COPY --from=build /manager /manager
USER 65532:65532
ENTRYPOINT ["/manager"]
