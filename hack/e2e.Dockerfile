# Images of the programs that hack/e2e-images.sh has built, one folder each. They pull nothing: they
# have no base and no `# syntax` line, for which BuildKit would pull its frontend. Each equals that
# of the Dockerfile, without a compiler in a container.
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

# The previous release. Its folders may be missing, and some builders evaluate all targets above the
# requested one, so these two are last.
FROM scratch AS previous
COPY previous/manager/ /
USER 65532:65532
ENTRYPOINT ["/manager"]

FROM scratch AS previous-viewer
COPY previous/viewer/ /
USER 65532:65532
EXPOSE 3000
ENTRYPOINT ["/viewer"]
