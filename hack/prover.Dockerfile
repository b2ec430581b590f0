# The prover with an operator and its control plane. It is not in the folder of e2e.Dockerfile,
# because some builders read a whole folder for each image. The node image provides the shell, for
# scripts of the harness, and tar, for `kubectl cp`.
ARG NODE_IMAGE
FROM $NODE_IMAGE AS shell
RUN mkdir /shell && for name in sh sleep rm env tar; do echo "/bin/$name"; ldd "/bin/$name" | grep -o '/[^ ]*'; done | \
  sort -u | xargs cp --parents --dereference --target-directory=/shell

FROM scratch AS prover
COPY --from=shell /shell /
COPY . /
WORKDIR /project
ENV KUBEBUILDER_ASSETS=/controlplane PATH=/bin
USER 65532:65532
ENTRYPOINT ["/bin/prove"]
