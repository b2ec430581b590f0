# `make` alone prints what there is. Every target works from a clean clone with
# nothing but Go: tools and control plane are built from pinned Go modules.

SHELL := /usr/bin/env bash -o pipefail
.SHELLFLAGS := -euc
.DEFAULT_GOAL := help

BIN       := $(CURDIR)/bin
TOOLS     := $(BIN)/tools
ARTIFACTS ?= $(CURDIR)/artifacts
IMG       ?= leasehold:dev
VIEWER_IMG ?= leasehold-viewer:dev
GO        ?= go

# The minor version of Kubernetes that controlplane builds and tests run on, as in
# K8S=1.31; empty is the one that hack/controlplane/go.mod pins.
K8S       ?=
# Programs of the user's own, such as those of setup-envtest.
OWN_ASSETS := $(if $(K8S),,$(KUBEBUILDER_ASSETS))
ifneq ($(K8S),)
export KUBEBUILDER_ASSETS := $(BIN)/controlplane/$(K8S)
endif

##@ Use

.PHONY: help
help: ## Show this help.
	@awk 'BEGIN {FS = ":.*##"} /^##@/ {printf "\n\033[1m%s\033[0m\n", substr($$0, 5)} /^[a-zA-Z_0-9-]+:.*?##/ {printf "  \033[36m%-16s\033[0m %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: controlplane
controlplane: needs-go ## Build etcd, kube-apiserver, kube-controller-manager, kubectl (5 minutes, once); K8S=1.31 is the oldest version of hack/controlplane.
	@cd hack/controlplane && $(GO) run . -out $(BIN)/controlplane -go $(GO) -minor '$(K8S)'

# A program of the user's own needs none of ours.
.PHONY: s3server
s3server: needs-go $(if $(S3SERVER),,$(BIN)/s3server/versitygw) ## Build the S3 server versitygw (45 s, once).
	@[ -z "$(S3SERVER)" ] || echo "s3server: S3SERVER is set, so $(S3SERVER) is used and nothing is built" >&2

.PHONY: promtool
promtool: needs-go $(BIN)/monitoring/promtool ## Build promtool, which tests the alerts (2 minutes, once).

.PHONY: helm
helm: needs-go $(TOOLS)/helm ## Build helm, which renders the chart of a SUBJECT (2 minutes, once).

# NODE_IMG names the image; empty, it is leasehold-node:<kubernetes version>.
.PHONY: node-image
node-image: needs-go ## Build a node image for kind from source, for where kindest/node cannot be pulled (10 minutes, once).
	@cd hack/nodeimage && $(GO) run . -out $(BIN)/nodeimage -go $(GO) -image "$(NODE_IMG)"

# CLUSTER=current installs the definitions into the cluster of the current kubeconfig, and runs the
# operator alone.
CLUSTER ?=

.PHONY: run
run: $(if $(CLUSTER),,controlplane s3server) build ## Run control plane, operator (2 replicas) and samples here, or the operator against CLUSTER=current; ARGS=-once ends when they are Ready.
	@$(GO) build -o $(TOOLS)/run ./hack/run
	@exec $(TOOLS)/run -manager $(BIN)/manager -viewer $(BIN)/viewer -cluster '$(CLUSTER)' $(ARGS)

.PHONY: clean
clean: ## Remove bin/ and artifacts/.
	@echo "removing $(BIN) and $(ARTIFACTS); the next make controlplane starts from the Go build cache"
	@rm -rf $(BIN) $(ARTIFACTS)

# Says what to do when Go is missing or older than go.mod asks for. Go 1.21 and
# later fetch a newer toolchain by themselves unless told not to.
.PHONY: needs-go
needs-go:
	@command -v $(GO) >/dev/null || { echo "Go is needed and $(GO) was not found: install Go $$(awk '$$1 == "go" {print $$2}' go.mod) or later, see https://go.dev/doc/install" >&2; exit 1; }
	@want=go$$(awk '$$1 == "go" {print $$2}' go.mod); have=$$($(GO) env GOVERSION); \
	printf '%s\n' "$$want" "$$have" | sort -VC || { echo "Go $${want#go} or later is needed and this is $${have#go}: see https://go.dev/doc/install" >&2; exit 1; }

# Likewise when Docker is.
.PHONY: needs-docker
needs-docker:
	@hack/needs-docker.sh

.PHONY: build
build: needs-go ## Build the operator into bin/manager, the page server into bin/viewer.
	@$(GO) build -o $(BIN)/manager .
	@$(GO) build -o $(BIN)/viewer ./controllers/markdownview/viewer

##@ Test

# The integration suites, those that take longest first, and how many run at a time.
SUITES       ?= storagebucket tenant manager markdownview memory counts continuity viewer
LANES        ?= 2
# Ginkgo's parallel processes in each suite. Specs mostly wait, so more than there are cores.
PROCS        ?= 3
# More flags for either, for example UNIT_FLAGS='-run Golden' or GINKGO_FLAGS='--focus=Retain'.
UNIT_FLAGS   ?=
GINKGO_FLAGS ?=
# Programs of tests are linked without data for debuggers: a fifth of the time of each link.
LINK_FLAGS   := -ldflags=-w

# A cluster of the user's own, or binaries of their own, need none of ours.
CONTROLPLANE := $(if $(filter true,$(USE_EXISTING_CLUSTER))$(OWN_ASSETS),,controlplane)
# Why the prover's smoke test is left out; empty if it is not.
UNPROVABLE   := $(if $(filter true,$(USE_EXISTING_CLUSTER)),USE_EXISTING_CLUSTER is true and the prover reads the API server's audit log,$\
	$(if $(OWN_ASSETS),$(if $(wildcard $(OWN_ASSETS)/kube-controller-manager),,KUBEBUILDER_ASSETS has no kube-controller-manager and the prover judges what the garbage collector removes)))

# Unit tests run in the time in which specs wait, at a lower priority, as specs have time
# limits. The prover has the machine for itself: what it judges depends on times.
.PHONY: test
test: needs-go $(CONTROLPLANE) s3server build $(TOOLS)/gotestsum $(TOOLS)/ginkgo $(TOOLS)/helm ## Run all tests but the slow kinds; totals on the last line, JUnit in artifacts/.
	@$(GO) build -o $(TOOLS)/testsummary ./hack/testsummary
	@unit=0; integration=0; prove=0; \
	nice -n 5 $(MAKE) --no-print-directory unit & \
	$(MAKE) --no-print-directory integration || integration=$$?; \
	wait $$! || unit=$$?; \
	$(MAKE) --no-print-directory prove-smoke || prove=$$?; \
	echo; \
	$(TOOLS)/testsummary \
		unit:$$unit:$(ARTIFACTS)/junit-unit.xml:$(ARTIFACTS)/junit-unraced.xml:$(ARTIFACTS)/junit-harness.xml:$(ARTIFACTS)/junit-election.xml:$(ARTIFACTS)/junit-controlplane.xml:$(ARTIFACTS)/junit-nodeimage.xml:$(ARTIFACTS)/junit-pinned.xml:$(ARTIFACTS)/junit-monitoring.xml \
		integration:$$integration$$(printf ':$(ARTIFACTS)/junit-integration-%s.xml' $(SUITES)) \
		$(if $(UNPROVABLE),,prove:$$prove:$(ARTIFACTS)/prove-smoke/junit.xml)

# Packages whose tests the race detector slows down and tells nothing of: renderers, which
# have one goroutine, and measurements.
UNRACED := /markdownview/(viewer/render|summary)$$|/test/performance/

# The race detector needs a C compiler; Go turns cgo off where there is none. The
# tests of hack/monitoring have one goroutine, and would have Prometheus compiled twice.
.PHONY: unit
unit: needs-go $(CONTROLPLANE) s3server promtool build $(TOOLS)/gotestsum $(TOOLS)/ginkgo $(TOOLS)/helm ## Run the unit tests, those of the harness and those of config/.
	@mkdir -p $(ARTIFACTS) && rm -f $(ARTIFACTS)/junit-unit.xml $(ARTIFACTS)/junit-unraced.xml $(ARTIFACTS)/junit-harness.xml $(ARTIFACTS)/junit-election.xml $(ARTIFACTS)/junit-controlplane.xml $(ARTIFACTS)/junit-nodeimage.xml $(ARTIFACTS)/junit-pinned.xml $(ARTIFACTS)/junit-monitoring.xml
	@race=-race; [ "$$($(GO) env CGO_ENABLED)" = 1 ] || { race=; echo "no C compiler: unit tests run without the race detector"; }; \
	packages=$$($(GO) list ./... leasehold.dev/runners/election | grep -vE '/test/(integration|e2e)'); \
	raced=$$(echo "$$packages" | grep -vE '$(UNRACED)'); \
	hack/compile.sh $(GO) $$race $$raced; \
	status=0; \
	$(TOOLS)/gotestsum --format=pkgname --hide-summary=skipped --junitfile=$(ARTIFACTS)/junit-unit.xml -- $$race $(LINK_FLAGS) $(UNIT_FLAGS) $$raced || status=$$?; \
	$(TOOLS)/gotestsum --format=pkgname --hide-summary=skipped --junitfile=$(ARTIFACTS)/junit-unraced.xml -- $(LINK_FLAGS) $(UNIT_FLAGS) $$(echo "$$packages" | grep -E '$(UNRACED)') || status=$$?; \
	(cd test/harness && ../../hack/compile.sh $(GO) $$race ./... && \
		$(TOOLS)/gotestsum --format=pkgname --hide-summary=skipped --junitfile=$(ARTIFACTS)/junit-harness.xml -- $$race $(LINK_FLAGS) $(UNIT_FLAGS) ./...) || status=$$?; \
	for module in runners/election hack/controlplane hack/nodeimage hack/pinned; do \
		(cd $$module && $(TOOLS)/gotestsum --format=pkgname --hide-summary=skipped --junitfile=$(ARTIFACTS)/junit-$$(basename $$module).xml -- $$race $(LINK_FLAGS) $(UNIT_FLAGS) .) || status=$$?; \
	done; \
	(cd hack/monitoring && $(TOOLS)/gotestsum --format=pkgname --hide-summary=skipped --junitfile=$(ARTIFACTS)/junit-monitoring.xml -- $(LINK_FLAGS) $(UNIT_FLAGS) .) || status=$$?; \
	exit $$status

# What happens at the memory limit needs cgroups and a machine that does little else: make memory.
.PHONY: integration
integration: needs-go $(CONTROLPLANE) s3server build $(TOOLS)/ginkgo $(TOOLS)/helm ## Run the integration specs against a real control plane.
	@PROGRAMS=$(BIN) hack/integration.sh $(TOOLS)/ginkgo $(ARTIFACTS) $(LANES) '$(SUITES)' --procs=$(PROCS) --randomize-all --keep-going \
		--timeout=45m --poll-progress-after=60s --label-filter='!cgroup' $(GINKGO_FLAGS)

# How many views of 880 KiB, and how many foreign objects of each kind. They need 8 GB of
# memory, 10 GB of disk and half an hour.
MEMORY_VIEWS   ?= 1000
MEMORY_FOREIGN ?= 10000

.PHONY: memory
memory: needs-go $(CONTROLPLANE) build $(TOOLS)/ginkgo ## Measure what users can make the operator hold in memory, with the numbers of the goals.
	@mkdir -p $(ARTIFACTS)
	@MEMORY_VIEWS='$(MEMORY_VIEWS)' MEMORY_FOREIGN='$(MEMORY_FOREIGN)' $(TOOLS)/ginkgo run -v --timeout=2h $(GINKGO_FLAGS) ./test/integration/memory

# The program of the module test/harness.
PROVER = cd test/harness && $(GO) build -o $(TOOLS)/prove ./cmd/prove

.PHONY: prover
prover: needs-go ## Build the prover, bin/tools/prove.
	@$(PROVER)

# SUBJECT is the file that describes an operator of your own, see docs/proving.md.
SUBJECT     ?= test/prove/subject.yaml
# SEED and PLAN are those of the line that an earlier run has printed.
SEED        ?= 0
PLAN        ?=
# EXPLORE=30m changes the objects of the scenarios in the ways of their schemas, for that long, in
# place of plans. CHANGE is that of a line that such a run has printed.
EXPLORE     ?= 0
CHANGE      ?=
# PAIRS=30m injects a second fault into the recoveries from crashes and stale starts, for that long,
# in place of plans.
PAIRS       ?= 0
# More flags, for example PROVE_FLAGS=--smoke for one plan of each perturbation.
PROVE_FLAGS ?=

.PHONY: prove
prove: needs-go $(CONTROLPLANE) s3server ## Break the operator at each of its writes and judge what the API server recorded; PLAN=... SEED=... does one again.
	@$(PROVER)
	@$(TOOLS)/prove --make --subject '$(SUBJECT)' --dir $(ARTIFACTS)/prove --seed '$(SEED)' --plan '$(PLAN)' --explore '$(EXPLORE)' --change '$(CHANGE)' --pairs '$(PAIRS)' $(PROVE_FLAGS)

# SHARDS are the folders that the shards of one seed have written.
SHARDS ?=

.PHONY: prove-merge
prove-merge: prover ## Make one report of those of all shards; SHARDS='DIR...'.
	@$(TOOLS)/prove merge --dir $(ARTIFACTS)/prove $(SHARDS)

# MANIFESTS is the kustomize folder of the operator's installation, BINARY its program; SUBJECT is a folder then.
MANIFESTS  ?=
BINARY     ?=
# More flags, for example INIT_FLAGS='--samples=examples --overwrite'.
INIT_FLAGS ?=

.PHONY: prove-init
prove-init: needs-go $(CONTROLPLANE) ## Write subject.yaml and scenarios of an operator of your own into the folder SUBJECT, from MANIFESTS and BINARY.
	@$(PROVER)
	@$(TOOLS)/prove init '$(MANIFESTS)' --subject '$(SUBJECT)' --binary '$(BINARY)' $(INIT_FLAGS)

# One plan of each perturbation, as every change has to pass it. The seed is fixed: as
# long as the clean runs give the same plans, the same ones are chosen of them. It needs
# a control plane of its own.
.PHONY: prove-smoke
prove-smoke: needs-go $(CONTROLPLANE) s3server
ifneq ($(UNPROVABLE),)
	@echo "prove-smoke is skipped: $(UNPROVABLE)"
else
	@$(PROVER)
	@$(TOOLS)/prove --make --subject '$(SUBJECT)' --dir $(ARTIFACTS)/prove-smoke --seed 1 --smoke --workers 4
endif

# The control plane is the one that is built here, or that of KUBEBUILDER_ASSETS.
.PHONY: prove-module
prove-module: needs-go controlplane ## Use the prover as another repository does, from the zip of its module; it needs a module proxy (5 minutes).
	@MODULE_PROOF=1 KUBEBUILDER_ASSETS="$${KUBEBUILDER_ASSETS:-$$(readlink -f $(BIN)/controlplane/current)}" $(GO) test ./test/module -count=1 -timeout=20m -v

# Only the operators whose name has this regular expression in it; empty proves all.
OTHERS ?=

.PHONY: prove-others
prove-others: needs-go $(CONTROLPLANE) s3server ## Prove operators of other people, and compare the findings with the known ones (up to an hour); OTHERS=name for one.
	@$(PROVER)
	@$(TOOLS)/prove others --folder test/prove/others --dir $(ARTIFACTS)/prove-others --run '$(OTHERS)' -- --make

# The plan that is done again and again, and how many clean runs are looked at.
BENCH_PLAN  ?= tenant-life:P1:PATCH:/api/v1/namespaces/{acme}-dev:1
BENCH_CLEAN ?= 200

.PHONY: prove-bench
prove-bench: needs-go $(CONTROLPLANE) s3server ## Measure the prover: its proxy, one plan 20 times, 200 clean runs (40 minutes).
	@$(PROVER)
	@$(GO) -C test/harness test ./fault -run '^$$' -bench APIProxy -benchtime 2000x
	@$(TOOLS)/prove --make --subject '$(SUBJECT)' --dir $(ARTIFACTS)/prove-bench/repeat --seed 1 --plan '$(BENCH_PLAN)' --repeat 20
	@$(TOOLS)/prove --make --subject '$(SUBJECT)' --dir $(ARTIFACTS)/prove-bench/clean --seed 1 --clean $(BENCH_CLEAN)

# Only the mutants whose name has this regular expression in it; empty tries all.
MUTANTS       ?=
# More flags, for example MUTANTS_FLAGS=--baseline=false.
MUTANTS_FLAGS ?=

.PHONY: mutants
mutants: needs-go $(CONTROLPLANE) s3server ## Prove the prover: build the operator with known mistakes, each of which the promise that it breaks has to find.
	@$(PROVER)
	@$(TOOLS)/prove mutants --folder test/mutants --subject test/prove/subject.yaml --dir $(ARTIFACTS)/mutants --seed '$(SEED)' --run '$(MUTANTS)' $(MUTANTS_FLAGS)

# More flags, for example PERF_FLAGS='-only scale,pauses' or PERF_FLAGS=-quick.
PERF_FLAGS ?=

.PHONY: perf
perf: needs-go $(CONTROLPLANE) s3server ## Measure the operator against its goals (40 minutes, on a quiet machine); report in artifacts/perf.
	@$(GO) build -o $(TOOLS)/perf ./test/performance/perf
	@$(TOOLS)/perf -dir $(ARTIFACTS)/perf -seed '$(SEED)' $(PERF_FLAGS)

# The commit to compare with, for example BASE=origin/main.
BASE       ?=
# More flags, for example GATE_FLAGS='-only benchmarks' for one check.
GATE_FLAGS ?=

.PHONY: gate
gate: needs-base needs-go $(CONTROLPLANE) s3server $(TOOLS)/ginkgo ## Compare with BASE=<commit> and stop what is worse; the report is in artifacts/gate.
	@$(GO) build -o $(TOOLS)/gate ./test/performance/gate
	@exec $(TOOLS)/gate -base '$(BASE)' -dir $(ARTIFACTS)/gate $(GATE_FLAGS)

.PHONY: needs-base
needs-base:
	@git rev-parse --verify --quiet '$(BASE)^{commit}' >/dev/null || { echo "gate: BASE=$(BASE) names no commit that is known here: make gate BASE=origin/main compares with what is there" >&2; exit 2; }

# How often the gate compares a checkout with itself; 0 leaves the planted regressions.
GATE_RUNS ?= 20

.PHONY: gate-proof
gate-proof: needs-go $(CONTROLPLANE) s3server $(TOOLS)/ginkgo ## Prove that each planted regression is stopped, and GATE_RUNS times not a checkout by itself.
	@GATE_RUNS='$(GATE_RUNS)' $(GO) test ./test/performance/gate/proof -count=1 -timeout=6h -v

# A kubectl that the user named, here where KUBECTL has no default yet, needs no
# control plane of ours.
E2E_KUBECTL := $(or $(KUBECTL),$(KUBEBUILDER_ASSETS:%=%/kubectl),$(BIN)/controlplane/current/kubectl)
# Two checkouts that use one Docker at the same time need a tag each.
E2E_TAG     ?= e2e
E2E_IMAGES  := IMG=leasehold:$(E2E_TAG) VIEWER_IMG=leasehold-viewer:$(E2E_TAG) S3_IMG=leasehold-s3:$(E2E_TAG) POLLING_IMG=leasehold-polling:$(E2E_TAG) \
	PREVIOUS_IMG=leasehold-previous:$(E2E_TAG) PREVIOUS_VIEWER_IMG=leasehold-viewer-previous:$(E2E_TAG)
# More flags, for example E2E_FLAGS='-run Failover'. It also reads
# E2E_NODE_IMAGE, E2E_KEEP=1, E2E_CLUSTER=<name>, see docs/end-to-end.md.
E2E_FLAGS   ?=

# The tests delete their cluster themselves; the trap is for when they die.
.PHONY: e2e
e2e: needs-go needs-docker $(if $(KUBECTL),,controlplane) $(TOOLS)/kind $(TOOLS)/kustomize $(TOOLS)/helm $(TOOLS)/gotestsum e2e-images ## Run the end-to-end features on a kind cluster of its own; needs Docker.
	@$(GO) build -o $(TOOLS)/testsummary ./hack/testsummary
	@mkdir -p $(ARTIFACTS) && rm -f $(ARTIFACTS)/junit-e2e.xml
	@kubectl=$$(command -v $(E2E_KUBECTL)) || { echo "$(E2E_KUBECTL) was not found: KUBECTL names the kubectl to use; unset, one is built" >&2; exit 1; }; \
	[ "$${kubectl#/}" != "$$kubectl" ] || kubectl="$$PWD/$$kubectl"; \
	node=$$(MAKE="$(MAKE_COMMAND)" GO="$(GO)" hack/node-image.sh); \
	name=leasehold-e2e-$$$$; \
	[ "$${E2E_KEEP:-}" = 1 ] || trap '$(TOOLS)/kind delete cluster --quiet --name '$$name EXIT; \
	status=0; \
	env $(E2E_IMAGES) E2E_NODE_IMAGE="$$node" E2E_NAME=$$name ARTIFACTS=$(abspath $(ARTIFACTS)) PREVIOUS_DIR=$(BIN)/e2e/previous/source KUBECTL="$$kubectl" KIND=$(TOOLS)/kind KUSTOMIZE=$(TOOLS)/kustomize HELM=$(TOOLS)/helm \
		$(TOOLS)/gotestsum --format=standard-verbose --hide-summary=skipped --junitfile=$(ARTIFACTS)/junit-e2e.xml -- ./test/e2e -count=1 -timeout=30m -v $(E2E_FLAGS) || status=$$?; \
	echo; \
	$(TOOLS)/testsummary e2e:$$status:$(ARTIFACTS)/junit-e2e.xml

.PHONY: e2e-images
e2e-images: needs-go needs-docker ## Build the images that e2e uses, on nothing and without a registry.
	@env $(E2E_IMAGES) GO="$(GO)" hack/e2e-images.sh $(BIN)/e2e

##@ Generate and check

.PHONY: generate
generate: $(TOOLS)/controller-gen ## Generate DeepCopy methods.
	$(TOOLS)/controller-gen object paths=./api/...

.PHONY: manifests
manifests: $(TOOLS)/controller-gen $(TOOLS)/crd-ref-docs ## Generate CRDs, webhook configurations and docs/api.md.
	$(TOOLS)/controller-gen crd webhook paths=./api/... paths=./controllers/... output:crd:dir=config/crd/bases output:webhook:dir=config/webhook
	$(TOOLS)/crd-ref-docs --log-level=ERROR --source-path=api --config=hack/tools/crd-ref-docs.yaml --renderer=markdown --output-path=docs/api.md

.PHONY: verify
verify: needs-go $(TOOLS)/controller-gen $(TOOLS)/crd-ref-docs ## Check that generated files and module files are up to date, and vet.
	@hack/verify.sh $(TOOLS)
	@for module in . runners/election test/harness hack/tools hack/controlplane hack/controlplane/1.31 hack/s3server hack/monitoring hack/release hack/pinned hack/nodeimage hack/nodeimage/kubernetes hack/nodeimage/node; do \
		(cd $$module && $(GO) mod tidy -diff) || { echo "verify: $$module is not tidy; run go mod tidy there" >&2; exit 1; }; \
	done
	@for module in . runners/election test/harness hack/controlplane hack/monitoring hack/nodeimage hack/pinned; do (cd $$module && $(GO) vet ./...); done
	@echo "verify: generated files and modules are up to date, go vet is content"

.PHONY: lint
lint: needs-go $(TOOLS)/golangci-lint $(TOOLS)/actionlint ## Check the house rules, the import arrows and the workflows.
	@$(TOOLS)/golangci-lint run ./...
	@for module in runners/election test/harness; do (cd $$module && $(TOOLS)/golangci-lint run --config=../../.golangci.yml ./...) || exit 1; done
	@for program in controlplane monitoring nodeimage pinned; do (cd hack/$$program && $(TOOLS)/golangci-lint run --config=../../.golangci.yml ./...); done
	@$(TOOLS)/actionlint .github/workflows/*.yml

.PHONY: vulncheck
vulncheck: needs-go $(TOOLS)/govulncheck ## Report known vulnerabilities in the code that is called; needs the database at vuln.go.dev.
	@hack/vulncheck.sh $(TOOLS)/govulncheck

.PHONY: fmt
fmt: needs-go $(TOOLS)/golangci-lint ## Format the Go code, imports too.
	@$(TOOLS)/golangci-lint fmt ./...
	@for module in runners/election test/harness; do (cd $$module && $(TOOLS)/golangci-lint fmt --config=../../.golangci.yml ./...); done
	@for program in controlplane monitoring nodeimage; do (cd hack/$$program && $(TOOLS)/golangci-lint fmt --config=../../.golangci.yml ./...); done

##@ Release

# As in VERSION=v0.1.0.
VERSION  ?=
# What comes before the names of the images, by which install.yaml and the chart name them.
REGISTRY ?= leasehold.dev
RELEASE   = GO=$(GO) KO=$(TOOLS)/ko KUSTOMIZE=$(TOOLS)/kustomize HELM=$(TOOLS)/helm hack/release

.PHONY: release
release: release-tools ## Write all files of release VERSION=v0.1.0 to dist/: binaries, images, manifests, SBOMs, sums.
	@$(RELEASE)/release.sh . dist '$(VERSION)' '$(REGISTRY)'

.PHONY: release-repeat
release-repeat: release-tools ## Make a release in two clones, the second with an empty build cache, and compare the files (15 minutes).
	@$(RELEASE)/repeat.sh '$(VERSION)' '$(REGISTRY)'

.PHONY: release-tools
release-tools: needs-go $(TOOLS)/kustomize $(TOOLS)/helm
	@cd hack/release && $(GO) build -o $(TOOLS)/ github.com/google/ko

##@ Deploy to a cluster

KUBECTL        ?= kubectl
CONTAINER_TOOL ?= docker
# More flags of docker-build. Docker without BuildKit needs '--build-arg BUILDPLATFORM=linux/amd64'.
DOCKER_BUILD_FLAGS ?=
# config/certmanager for a cluster that has cert-manager.
OVERLAY        ?= config/default

.PHONY: docker-build
docker-build: ## Build the images IMG (the operator) and VIEWER_IMG (the page server).
	$(CONTAINER_TOOL) build $(DOCKER_BUILD_FLAGS) -t $(IMG) .
	$(CONTAINER_TOOL) build $(DOCKER_BUILD_FLAGS) -t $(VIEWER_IMG) --target viewer .

.PHONY: docker-test
docker-test: needs-go needs-docker ## Build both images by docker-build on a base without a registry, and run them; needs Docker.
	@MAKE="$(MAKE_COMMAND)" GO="$(GO)" hack/docker-test.sh

.PHONY: docker-push
docker-push: ## Push the images IMG and VIEWER_IMG.
	$(CONTAINER_TOOL) push $(IMG)
	$(CONTAINER_TOOL) push $(VIEWER_IMG)

.PHONY: install
install: $(TOOLS)/kustomize ## Install the CRDs.
	@$(TOOLS)/kustomize build config/crd | $(KUBECTL) apply --server-side -f -

.PHONY: uninstall
uninstall: $(TOOLS)/kustomize ## Remove the CRDs; refuses while there are Tenants or managed buckets.
	@hack/nothing-held.sh $(KUBECTL)
	@$(TOOLS)/kustomize build config/crd | $(KUBECTL) delete --ignore-not-found -f -

.PHONY: deploy
deploy: $(TOOLS)/kustomize ## Deploy the operator with the images IMG and VIEWER_IMG, CRDs included.
	@hack/render.sh $(TOOLS)/kustomize $(OVERLAY) $(IMG) $(VIEWER_IMG) | $(KUBECTL) apply --server-side --force-conflicts -f -

# The namespace goes first, and with it the Lease: an API server that has seen the
# fence go while there was a Lease would judge the next installation by it. See
# docs/decisions/fence.md.
.PHONY: undeploy
undeploy: $(TOOLS)/kustomize ## Remove the operator, CRDs included; refuses while there are Tenants or managed buckets.
	@hack/nothing-held.sh $(KUBECTL)
	@$(KUBECTL) delete namespace leasehold-system --ignore-not-found
	@hack/render.sh $(TOOLS)/kustomize $(OVERLAY) $(IMG) $(VIEWER_IMG) | $(KUBECTL) delete --ignore-not-found -f -

# Every tool is a `tool` directive of hack/tools/go.mod. Its import path is read from there:
# `go list tool` would download the modules of all tools for one of them.
$(TOOLS)/%: hack/tools/go.mod hack/tools/go.sum
	@echo "building $* from hack/tools" >&2
	@mkdir -p $(TOOLS)
	@cd hack/tools && $(GO) build -o $(TOOLS)/ $$(awk 'NF == 1 && $$1 ~ "/$*(/v[0-9]+)?$$" {print $$1}' go.mod)
	@touch $@

$(BIN)/s3server/versitygw: hack/s3server/go.mod hack/s3server/go.sum
	@echo "s3server: building versitygw $$(awk '$$1 == "github.com/versity/versitygw" {print $$2}' hack/s3server/go.mod) from hack/s3server (about 45 s on 2 cores the first time)" >&2
	@mkdir -p $(@D)
	@cd hack/s3server && CGO_ENABLED=0 $(GO) build -trimpath -ldflags='-s -w' -o $(@D)/ github.com/versity/versitygw/cmd/versitygw
	@touch $@

# Without what finds targets in clouds: 243 of 1,356 packages, and large ones.
$(BIN)/monitoring/promtool: hack/monitoring/go.mod hack/monitoring/go.sum
	@echo "promtool: building it of Prometheus $$(awk '$$1 == "github.com/prometheus/prometheus" {print $$2}' hack/monitoring/go.mod) from hack/monitoring (about 2 minutes on 2 cores the first time)" >&2
	@mkdir -p $(@D)
	@cd hack/monitoring && CGO_ENABLED=0 $(GO) build -trimpath -tags=remove_all_sd -ldflags='-s -w' -o $(@D)/ github.com/prometheus/prometheus/cmd/promtool
	@touch $@
