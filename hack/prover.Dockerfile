# The prover with an operator and the control plane that it starts. Its folder is not that of
# e2e.Dockerfile, as some builders read all of a folder for each image. The shell, which runs the
# scripts of the harness, and tar, which `kubectl cp` needs, are those of the node image.
ARG NODE_IMAGE
FROM $NODE_IMAGE AS shell
RUN mkdir /shell && for name in sh sleep rm tar; do echo "/bin/$name"; ldd "/bin/$name" | grep -o '/[^ ]*'; done | \
  sort -u | xargs cp --parents --dereference --target-directory=/shell

FROM scratch AS prover
COPY --from=shell /shell /
COPY . /
WORKDIR /project
ENV KUBEBUILDER_ASSETS=/controlplane PATH=/bin
USER 65532:65532
ENTRYPOINT ["/bin/prove"]
