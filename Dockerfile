# Builds the manager as a static binary and ships it alone: no shell, no libc.
FROM --platform=$BUILDPLATFORM golang:1.26 AS build
ARG TARGETOS
ARG TARGETARCH
WORKDIR /src

# The modules come first, so that a change of code does not fetch them again.
COPY go.mod go.sum ./
RUN go mod download

COPY *.go ./
COPY api/ api/
COPY controllers/ controllers/
COPY runners/ runners/
RUN CGO_ENABLED=0 GOOS=${TARGETOS} GOARCH=${TARGETARCH} \
    go build -trimpath -ldflags='-s -w' -o /manager .

FROM scratch
COPY --from=build /manager /manager
USER 65532:65532
ENTRYPOINT ["/manager"]
