# Images of programs that hack/e2e-images.sh has built, one folder each. Nothing
# is pulled: no base, and no `# syntax` line, for which BuildKit would pull its
# frontend. Each is what the Dockerfile makes, without a compiler in a container.
FROM scratch AS viewer
COPY viewer/ /
USER 65532:65532
EXPOSE 3000
ENTRYPOINT ["/viewer"]

FROM scratch AS s3
COPY s3/ /
USER 65532:65532
ENTRYPOINT ["/versitygw"]

FROM scratch AS manager
COPY manager/ /
USER 65532:65532
ENTRYPOINT ["/manager"]

# The release before. Its folders may be missing, and some builders look at all targets above
# the one that is requested, so these two are the last.
FROM scratch AS previous
COPY previous/manager/ /
USER 65532:65532
ENTRYPOINT ["/manager"]

FROM scratch AS previous-viewer
COPY previous/viewer/ /
USER 65532:65532
EXPOSE 3000
ENTRYPOINT ["/viewer"]
