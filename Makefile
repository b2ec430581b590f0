# `make` alone prints the targets. Every target works from a clean clone with nothing but Go: the
# tools and the control plane are built from pinned Go modules.

SHELL := /usr/bin/env bash -o pipefail
.SHELLFLAGS := -euc
.DEFAULT_GOAL := help

BIN       := $(CURDIR)/bin
TOOLS     := $(BIN)/tools
IMG       ?= leasehold:dev
VIEWER_IMG ?= leasehold-viewer:dev
GO        ?= go
# Runs a program and prints every 30 s how long it takes.
PROGRESS  := $(CURDIR)/hack/progress.sh

# Make and the shell split paths at spaces and give these characters a meaning. A recipe would then work on another
# path: it would build into, or remove, a folder beside this one.
SPECIAL := ' " ` $$ \ ( ) [ ] { } < > | & ; * ? ! \# % :
special = $(filter-out 1,$(words [$1]))$(strip $(foreach c,$(SPECIAL),$(findstring $c,$1)))
ifeq ($(wildcard hack/tools/go.mod),)
$(error "$(CURDIR)" is not the directory of this Makefile, so nothing was done; run make -C DIRECTORY)
endif
$(if $(call special,$(CURDIR)),$(error the path of this checkout, "$(CURDIR)", contains a space or a special character, \
	and nothing was done; move the checkout to a path of letters, digits, ".", "_" and "-"))
$(foreach v,ARTIFACTS BIN TOOLS GO KUBECTL,$(if $(call special,$($v)),$(error $v="$($v)" contains a \
	space or a special character, and nothing was done; set $v to a path of letters, digits, ".", "_" and "-")))
# Programs read these in other folders.
override ARTIFACTS := $(abspath $(or $(ARTIFACTS),artifacts))
ifneq ($(KUBEBUILDER_ASSETS),) # with a space where setup-envtest runs on macOS
override KUBEBUILDER_ASSETS := $(if $(filter /%,$(firstword $(KUBEBUILDER_ASSETS))),,$(CURDIR)/)$(KUBEBUILDER_ASSETS)
endif
export ARTIFACTS KUBEBUILDER_ASSETS

# All programs, tests and images are static, without paths and without what only debuggers read, which takes a tenth
# of each build. One set of flags is one Go build cache, which the control planes share.
export CGO_ENABLED := 0
export GOFLAGS     := $(GOFLAGS) -trimpath -gcflags=all=-dwarf=false

# The minor version of Kubernetes that controlplane builds and tests run on, as in
# K8S=1.31; empty is the one that hack/controlplane/go.mod pins.
# Programs that the user provides, such as those of setup-envtest.
OWN_ASSETS := $(if $(K8S),,$(KUBEBUILDER_ASSETS))
ifneq ($(K8S),)
override KUBEBUILDER_ASSETS := $(BIN)/controlplane/$(K8S)
endif

# Only the tools are files.
.PHONY: help controlplane s3server run clean needs-controllers needs-go build test unit race services integration prove prove-tool prove-init prove-others mutants \
	perf gate e2e generate verify lint vulncheck release docker-build install uninstall deploy undeploy

##@ Use

help: ## Show this help.
	@awk 'BEGIN {FS = ":.*##"} /^##@/ {printf "\n\033[1m%s\033[0m\n", substr($$0, 5)} /^[a-zA-Z_0-9-]+:.*?##/ {printf "  \033[36m%-16s\033[0m %s\n", $$1, $$2}' $(MAKEFILE_LIST)

controlplane: needs-go ## Build etcd, kube-apiserver, kube-controller-manager and kubectl (5 to 25 minutes on 2 cores, once). K8S=1.31 selects an older version of hack/controlplane.
	@cd test/harness && $(GO) run ./cmd/controlplane -out $(BIN)/controlplane -pins $(CURDIR)/hack/controlplane -go $(GO) -minor '$(K8S)'

# A program that the user provides replaces this one.
s3server: needs-go $(if $(S3SERVER),,$(BIN)/s3server/versitygw) ## Build the S3 server versitygw (45 s, once).
	@[ -z "$(S3SERVER)" ] || echo "s3server: S3SERVER is set, so make uses $(S3SERVER) and builds nothing" >&2

# CLUSTER=current installs the definitions into the cluster of the current kubeconfig, and runs the
# operator alone.
run: $(if $(CLUSTER),,needs-controllers controlplane s3server) build ## Run a control plane, the operator (2 replicas) and the samples locally; ARGS=-once exits when the samples are Ready. CLUSTER=current runs the operator against your current cluster.
ifneq ($(CLUSTER),)
	@KUBECTL=$(KUBECTL) exec hack/current.sh $(BIN)/manager '$(CLUSTER)' $(ARGS)
else
	@$(GO) build -o $(TOOLS)/run ./hack/run
	@exec $(TOOLS)/run $(ARGS)
endif

# Only names inside this folder: any other folder that ARTIFACTS names may contain files of the user. Without a slash at
# the end, a symbolic link is removed and its target is not.
clean: ## Remove bin/, artifacts/ and the links to built specs.
	@echo "removing bin/ and artifacts/ of $(CURDIR); the next make controlplane starts from the Go build cache"
	@rm -rf bin artifacts
	@rm -f test/integration/*/*.test
	@$(if $(filter-out $(CURDIR)/artifacts,$(ARTIFACTS)),echo "ARTIFACTS=$(ARTIFACTS) was not removed: make clean removes only bin/ and artifacts/ of this checkout")

# The programs of setup-envtest would fail only after the build, and the samples would never be Ready.
needs-controllers:
	@$(if $(OWN_ASSETS),$(if $(OWN_CONTROLLERS),,echo "run: KUBEBUILDER_ASSETS=$(OWN_ASSETS) has no kube-controller-manager, which creates Pods and removes deleted objects; unset it and run make controlplane" >&2; exit 2))

needs-go:
	@hack/needs-go.sh $(GO)

build: needs-go ## Build the operator (bin/manager) and the page server (bin/viewer).
	@$(PROGRESS) build $(GO) build -o $(BIN)/manager .
	@$(PROGRESS) build $(GO) build -o $(BIN)/viewer ./controllers/markdownview/viewer

##@ Test

# Additional flags of a target's program: UNIT_FLAGS='-run Golden', GINKGO_FLAGS='--focus=Retain', PROVE_FLAGS=--keep,
# MUTANTS_FLAGS=--baseline=false, PERF_FLAGS='-only scale,pauses', GATE_FLAGS=benchmarks, E2E_FLAGS='-run Failover',
# INIT_FLAGS='--samples=examples --overwrite', LINT_FLAGS=--fix.

# The integration suites, slowest first, and those of make slow. SUITE_JOBS of them run in parallel: more than cores,
# because specs mostly wait.
SUITES       ?= storagebucket tenant manager counts continuity markdownview viewer
SLOW_SUITES  := memory certmanager
SUITE_JOBS   ?= 3
# Ginkgo's parallel processes in each suite.
PROCS        ?= 3
# Test programs are linked without debug information, which takes a fifth of the time of each link, and
# built without vet, which make verify runs: it would also look at all dependencies.
TEST_FLAGS   := -ldflags=-w -vet=off

# A cluster or binaries that the user provides replace those built here.
CONTROLPLANE := $(if $(filter true,$(USE_EXISTING_CLUSTER))$(OWN_ASSETS),,controlplane)
OWN_CONTROLLERS := $(wildcard $(subst $() ,\ ,$(OWN_ASSETS))/kube-controller-manager)
# The reason to skip the prover's smoke test; empty to run it.
UNPROVABLE   := $(if $(filter true,$(USE_EXISTING_CLUSTER)),USE_EXISTING_CLUSTER is true and the prover reads the API server's audit log,$\
	$(if $(OWN_ASSETS),$(if $(OWN_CONTROLLERS),,KUBEBUILDER_ASSETS has no kube-controller-manager and the prover judges what the garbage collector removes)))

# Unit tests run while specs wait, at a lower priority because specs have time limits. The prover
# runs alone: its verdicts depend on times.
test: needs-go $(CONTROLPLANE) s3server build $(TOOLS)/gotestsum $(TOOLS)/ginkgo $(TOOLS)/helm ## Run all tests except the slow ones. The last line shows the totals; JUnit reports are in artifacts/.
	@$(GO) build -o $(TOOLS)/testsummary ./hack/testsummary
	@unit=0; integration=0; prove=0; \
	$(MAKE) --no-print-directory integration || integration=$$?; \
	$(MAKE) --no-print-directory unit || unit=$$?; \
	$(MAKE) --no-print-directory prove SMOKE=1 || prove=$$?; \
	echo; \
	$(TOOLS)/testsummary \
		unit:$$unit$$(printf ':$(ARTIFACTS)/junit-%s.xml' $(UNITS)) \
		integration:$$integration$$(printf ':$(ARTIFACTS)/junit-integration-%s.xml' $(SUITES)) \
		$(if $(UNPROVABLE),,prove:$$prove:$(ARTIFACTS)/prove-smoke/junit.xml)

# The modules that have Go code, and the reports of `make test`. Those of go.work have one set of versions; the others
# have their own, so each is built with GOWORK=off.
WORKSPACE = $(shell awk '/^\t/ {sub("^[.]/", "", $$1); print $$1}' go.work)
MODULES = $(WORKSPACE) runners/election test/harness/fault hack/monitoring hack/gitops hack/certmanager
UNITS   := unit harness
# For a loop over modules.
ALONE = [[ " $(WORKSPACE) " == *" $$module "* ]] || export GOWORK=off

# Tests of test/ and hack/ read files of all modules, and go test keeps a result although a file outside the module of the
# test has changed. So no result of a former run counts.
unit: needs-go $(CONTROLPLANE) s3server build $(TOOLS)/gotestsum $(TOOLS)/ginkgo $(TOOLS)/helm ## Run the unit tests of the operator, the harness and config/, except the slow ones.
	@GO=$(GO) GOTESTSUM=$(TOOLS)/gotestsum ARTIFACTS=$(ARTIFACTS) hack/unit.sh '$(TEST_FLAGS) -count=1 -skip=^TestSlow $(UNIT_FLAGS)' . test/harness

# What takes longer than it is worth for each change of a line: tests whose names begin with TestSlow; the election and
# the faults with the oldest versions that they support, promtool, Flux and cert-manager, each of which compiles other
# dependencies; the measurement of memory. Some build programs, whose sources go test does not know, so no result of a
# former run counts.
slow: needs-go $(CONTROLPLANE) s3server $(BIN)/monitoring/promtool $(BIN)/certmanager/certmanager build $(TOOLS)/gotestsum $(TOOLS)/ginkgo $(TOOLS)/helm ## Run the slow unit tests, which make test skips. CI runs them for each change.
	@GO=$(GO) GOTESTSUM=$(TOOLS)/gotestsum ARTIFACTS=$(ARTIFACTS)/slow hack/unit.sh '$(TEST_FLAGS) -count=1 -run=^TestSlow $(UNIT_FLAGS)' . test/harness
	@GO=$(GO) GOTESTSUM=$(TOOLS)/gotestsum ARTIFACTS=$(ARTIFACTS)/slow hack/unit.sh '$(TEST_FLAGS) -count=1 $(UNIT_FLAGS)' runners/election test/harness/fault hack/monitoring hack/gitops
	@$(MAKE) --no-print-directory integration SUITES='$(SLOW_SUITES)' ARTIFACTS=$(ARTIFACTS)/slow

# On a busy machine SeaweedFS can take longer to create its first bucket than a probe may last, so CI does not run this.
services: needs-go $(CONTROLPLANE) $(BIN)/seaweedfs/weed ## Run the specs of StorageBuckets whose result the S3 service decides, with SeaweedFS.
	@$(MAKE) --no-print-directory integration SUITES=storagebucket ARTIFACTS=$(ARTIFACTS)/services \
		S3SERVER=$(BIN)/seaweedfs/weed GINKGO_FLAGS='--label-filter=service $(GINKGO_FLAGS)'

# The tests of hack/ have one goroutine, and the race detector would compile Prometheus again. The slow tests
# measure, or start programs that are built without the detector.
race: export CGO_ENABLED := 1
race: needs-go $(CONTROLPLANE) s3server build $(TOOLS)/gotestsum $(TOOLS)/ginkgo $(TOOLS)/helm ## Run the unit tests with the race detector. Needs a C compiler.
	@GO=$(GO) GOTESTSUM=$(TOOLS)/gotestsum ARTIFACTS=$(ARTIFACTS) hack/unit.sh '-race $(TEST_FLAGS) -count=1 -skip=^TestSlow $(UNIT_FLAGS)' . test/harness runners/election

integration: needs-go $(CONTROLPLANE) s3server build $(TOOLS)/ginkgo $(TOOLS)/helm ## Run the integration specs against a real control plane.
	@GO=$(GO) PROGRAMS=$(BIN) hack/integration.sh $(TOOLS)/ginkgo $(ARTIFACTS) $(SUITE_JOBS) '$(SUITES)' --procs=$(PROCS) --randomize-all --keep-going \
		--timeout=45m --poll-progress-after=60s $(GINKGO_FLAGS)

PROVER = cd test/harness && $(PROGRESS) prover $(GO) build -o $(TOOLS)/prove ./cmd/prove

# SUBJECT is the file that describes an operator, see test/harness/README.md.
SUBJECT     ?= test/prove/subject.yaml
# SEED and PLAN come from a line that an earlier run printed.
SEED        ?= 0
# SMOKE=1 runs one plan of each family of faults: the check of each change. The seed is fixed, so the choice changes
# only with the plans.
# SHARDS='DIR...' merges the reports of all shards of one seed into one, and runs no plan.
PROVE_MODE  := $(if $(SHARDS),shards,$(if $(SMOKE),$(if $(UNPROVABLE),unprovable,smoke),plans))

prove: needs-go $(if $(SHARDS),,$(CONTROLPLANE) s3server) ## Inject a fault at each write of the operator and check the audit log; PLAN=... SEED=... repeats one run.
	@case $(PROVE_MODE) in \
	unprovable) echo "prove SMOKE=1 is skipped: $(UNPROVABLE)"; exit ;; \
	shards) set -- merge --dir $(ARTIFACTS)/prove $(SHARDS) ;; \
	smoke) set -- --make --subject '$(SUBJECT)' --dir $(ARTIFACTS)/prove-smoke --seed 4 --smoke --workers 6 ;; \
	plans) set -- --make --subject '$(SUBJECT)' --dir $(ARTIFACTS)/prove --workers 6 --seed '$(SEED)' --plan '$(PLAN)' $(PROVE_FLAGS) ;; \
	esac; ($(PROVER)); exec $(TOOLS)/prove "$$@"

prove-tool: needs-go ## Install the command `prove` into GOBIN, or into bin of GOPATH if GOBIN is not set.
	@cd test/harness && $(PROGRESS) prover $(GO) install ./cmd/prove
	@bin=$$($(GO) env GOBIN); bin=$${bin:-$$($(GO) env GOPATH)/bin}; \
	case ":$$PATH:" in *":$$bin:"*) echo "prove-tool: $$bin/prove is on the PATH" ;; \
	*) echo "prove-tool: $$bin/prove is installed; add $$bin to PATH" ;; esac

# MANIFESTS is the kustomize folder of the operator's installation, BINARY its program. SUBJECT is a folder here.
prove-init: needs-go $(CONTROLPLANE) ## Draft a subject.yaml and scenarios for your operator in the directory SUBJECT, from MANIFESTS and BINARY.
	@$(PROVER)
	@$(TOOLS)/prove init '$(MANIFESTS)' --subject '$(SUBJECT)' --binary '$(BINARY)' $(INIT_FLAGS)

# OTHERS and MUTANTS are regular expressions for names; empty selects all.
prove-others: needs-go $(CONTROLPLANE) s3server ## Run the prover on pinned third-party operators and fail on findings that known.yaml does not list (up to an hour); OTHERS=name runs one.
	@$(PROVER)
	@$(PROGRESS) others $(GO) build -o $(TOOLS)/others ./test/prove/others
	@$(TOOLS)/others --prover $(TOOLS)/prove --dir $(ARTIFACTS)/prove-others --run '$(OTHERS)' -- --make

mutants: needs-go $(CONTROLPLANE) s3server ## Test the prover: build the operator with known bugs, and check that the prover finds each of them.
	@$(PROGRESS) mutants $(GO) build -o $(TOOLS)/mutants ./test/mutants
	@$(TOOLS)/mutants --dir $(ARTIFACTS)/mutants --seed '$(SEED)' --run '$(MUTANTS)' $(MUTANTS_FLAGS)

perf: needs-go $(CONTROLPLANE) s3server ## Measure the performance of the operator (40 minutes, on an idle machine). The report is in artifacts/perf.
	@$(GO) build -o $(TOOLS)/perf ./test/performance/perf
	@$(TOOLS)/perf -dir $(ARTIFACTS)/perf -seed '$(SEED)' $(PERF_FLAGS)

# BASE=origin/main is the commit to compare with. PROOF=20 compares no commits: it tests that the gate stops each
# planted regression, and does not stop the same checkout in 20 runs.
gate: needs-go $(CONTROLPLANE) s3server $(TOOLS)/ginkgo ## Compare the change with BASE=<commit> and fail if something got worse. The report is in artifacts/gate.
ifneq ($(PROOF),)
	@GATE_PROOF='$(PROOF)' $(GO) test ./test/performance/gate -run 'Stopped' -count=1 -timeout=6h -v
else
	@git rev-parse --verify --quiet '$(BASE)^{commit}' >/dev/null || { echo "gate: BASE=$(BASE) is not a commit in this repository; make gate BASE=origin/main compares with that branch" >&2; exit 2; }
	@GO=$(GO) hack/gate.sh '$(BASE)' $(ARTIFACTS)/gate $(GATE_FLAGS)
endif

# Two checkouts that use the same Docker daemon at the same time need different tags. hack/e2e.sh lists the other
# variables.
E2E_TAG     ?= e2e
# Set here, where KUBECTL has no default yet: no kubectl is built if the user names one.
E2E_KUBECTL := $(or $(KUBECTL),$(if $(KUBEBUILDER_ASSETS),$(KUBEBUILDER_ASSETS)/kubectl),$(BIN)/controlplane/current/kubectl)

e2e: needs-go $(if $(KUBECTL),,controlplane) $(TOOLS)/kind $(TOOLS)/kustomize $(TOOLS)/helm $(TOOLS)/gotestsum ## Run the end-to-end tests on a new kind cluster. Needs Docker.
	@$(GO) build -o $(TOOLS)/testsummary ./hack/testsummary
	@MAKE="$(MAKE_COMMAND)" GO=$(GO) E2E_TAG=$(E2E_TAG) ARTIFACTS=$(ARTIFACTS) \
		KUBECTL="$(E2E_KUBECTL)" hack/e2e.sh $(E2E_FLAGS)

##@ Generate and check

generate: $(TOOLS)/controller-gen $(TOOLS)/crd-ref-docs ## Generate DeepCopy methods, CRDs, webhook configurations and docs/api.md.
	$(TOOLS)/controller-gen object:headerFile=hack/boilerplate.go.txt paths=./api/...
	$(TOOLS)/controller-gen crd webhook paths=./api/... paths=./controllers/... output:crd:dir=config/crd/bases output:webhook:dir=config/webhook
	$(TOOLS)/crd-ref-docs --log-level=ERROR --source-path=api --config=hack/tools/crd-ref-docs.yaml --renderer=markdown --output-path=docs/api.md
	sed -i.bak '/./,/^$$/!d' docs/api.md && rm docs/api.md.bak # one empty line where the tool leaves several

verify: needs-go $(TOOLS)/controller-gen $(TOOLS)/crd-ref-docs ## Check that generated files and module files are up to date, and vet.
	@hack/verify.sh $(TOOLS)
	@for module in $(MODULES) hack/tools hack/controlplane hack/controlplane/1.31 hack/s3server hack/seaweedfs hack/release hack/nodeimage/node; do \
		(cd $$module && GOWORK=off $(GO) mod tidy -diff) || { echo "verify: $$module is not tidy; run GOWORK=off go mod tidy there" >&2; exit 1; }; \
	done
	@GO=$(GO) hack/one-version.sh $(WORKSPACE)
	@for module in $(MODULES); do ($(ALONE); cd $$module && $(PROGRESS) "vet in $$module" $(GO) vet ./...); done
	@echo "verify: generated files and modules are up to date, and go vet passed"

lint: needs-go $(TOOLS)/golangci-lint-kube-api-linter $(TOOLS)/actionlint ## Check the code style, the imports and the workflows; LINT_FLAGS=--fix formats the code.
	@for module in $(MODULES); do ($(ALONE); cd $$module && $(PROGRESS) "lint in $$module" $(TOOLS)/golangci-lint-kube-api-linter run --config=$(CURDIR)/.golangci.yml $(LINT_FLAGS) ./...) || exit 1; done
	@$(TOOLS)/actionlint .github/workflows/*.yml

vulncheck: needs-go $(TOOLS)/govulncheck ## Report known vulnerabilities in code that the operator calls. Needs access to vuln.go.dev.
	@hack/vulncheck.sh $(TOOLS)/govulncheck

##@ Release

# The prefix of the image names in install.yaml and the chart.
REGISTRY ?= leasehold.dev
# REPEAT=1 makes it in two clones, the second with an empty build cache, and compares the files (15 minutes).
release: needs-go $(TOOLS)/kustomize $(TOOLS)/helm ## Build all files of release VERSION=v0.1.0 in dist/: binaries, images, manifests, SBOMs and checksums.
	@cd hack/release && GOWORK=off $(PROGRESS) ko $(GO) build -o $(TOOLS)/ github.com/google/ko
	@GO=$(GO) KO=$(TOOLS)/ko KUSTOMIZE=$(TOOLS)/kustomize HELM=$(TOOLS)/helm hack/release/$(if $(REPEAT),repeat.sh,release.sh . dist) '$(VERSION)' '$(REGISTRY)'

##@ Deploy to a cluster

KUBECTL        ?= kubectl
CONTAINER_TOOL ?= docker
# DOCKER_BUILD_FLAGS are more flags of docker-build. Docker without BuildKit needs '--build-arg BUILDPLATFORM=linux/amd64'.
# config/certmanager for a cluster that has cert-manager.
OVERLAY        ?= config/default

docker-build: ## Build the images IMG (the operator) and VIEWER_IMG (the page server).
	$(CONTAINER_TOOL) build $(DOCKER_BUILD_FLAGS) -t '$(IMG)' .
	$(CONTAINER_TOOL) build $(DOCKER_BUILD_FLAGS) -t '$(VIEWER_IMG)' --target viewer .

install: $(TOOLS)/kustomize ## Install the CRDs.
	@$(TOOLS)/kustomize build config/crd | $(KUBECTL) apply --server-side -f -

uninstall: $(TOOLS)/kustomize ## Remove the CRDs. Refuses while Tenants or managed buckets exist.
	@hack/nothing-held.sh $(KUBECTL)
	@$(TOOLS)/kustomize build config/crd | $(KUBECTL) delete --ignore-not-found -f -

deploy: $(TOOLS)/kustomize ## Deploy the CRDs and the operator with the images IMG and VIEWER_IMG.
	@hack/render.sh $(TOOLS)/kustomize '$(OVERLAY)' '$(IMG)' '$(VIEWER_IMG)' | $(KUBECTL) apply --server-side --force-conflicts -f -

# The overlay's namespace is deleted first, and the Lease with it: an API server that has observed the end of
# the fence while there was a Lease would apply it to the next installation. See docs/decisions/fence.md.
undeploy: $(TOOLS)/kustomize ## Remove the operator and the CRDs. Refuses while Tenants or managed buckets exist.
	@hack/nothing-held.sh $(KUBECTL)
	@$(KUBECTL) delete namespace --ignore-not-found "$$(hack/render.sh $(TOOLS)/kustomize '$(OVERLAY)' '$(IMG)' '$(VIEWER_IMG)' | \
		awk '/^kind: Namespace$$/ {found = 1} found && /^  name: / {print $$2; found = 0}')"
	@hack/render.sh $(TOOLS)/kustomize '$(OVERLAY)' '$(IMG)' '$(VIEWER_IMG)' | $(KUBECTL) delete --ignore-not-found -f -

# Allows `make bin/tools/helm`.
bin/%: $(BIN)/% ;

# Every tool is a `tool` directive of hack/tools/go.mod. Its import path is read from there:
# `go list tool` would download the modules of all tools for one of them.
$(TOOLS)/%: hack/tools/go.mod hack/tools/go.sum
	@echo "building $* from hack/tools" >&2
	@mkdir -p $(TOOLS)
	@cd hack/tools && GOWORK=off $(PROGRESS) $* $(GO) build -o $(TOOLS)/ $$(awk 'NF == 1 && $$1 ~ "/$*(/v[0-9]+)?$$" {print $$1}' go.mod)
	@touch $@

$(BIN)/s3server/versitygw: hack/s3server/go.mod hack/s3server/go.sum
	@echo "s3server: building versitygw $$(awk '$$1 == "github.com/versity/versitygw" {print $$2}' hack/s3server/go.mod) from hack/s3server (about 45 s on 2 cores the first time)" >&2
	@mkdir -p $(@D)
	@cd hack/s3server && CGO_ENABLED=0 GOWORK=off $(PROGRESS) s3server $(GO) build -ldflags='-s -w' -o $(@D)/ github.com/versity/versitygw/cmd/versitygw
	@touch $@

$(BIN)/certmanager/certmanager: hack/certmanager/go.mod hack/certmanager/go.sum hack/certmanager/main.go
	@echo "certmanager: building the tool with cert-manager $$(awk '$$1 == "github.com/cert-manager/cert-manager" {print $$2}' hack/certmanager/go.mod) from hack/certmanager (about 2 minutes on 2 cores the first time)" >&2
	@mkdir -p $(@D)
	@cd hack/certmanager && CGO_ENABLED=0 GOWORK=off $(PROGRESS) certmanager $(GO) build -ldflags='-s -w' -o $@ .
	@touch $@

$(BIN)/seaweedfs/weed: hack/seaweedfs/go.mod hack/seaweedfs/go.sum
	@echo "seaweedfs: building weed of SeaweedFS $$(awk '$$1 == "github.com/seaweedfs/seaweedfs" {print $$2}' hack/seaweedfs/go.mod) from hack/seaweedfs (about 4 minutes on 2 cores the first time)" >&2
	@mkdir -p $(@D)
	@cd hack/seaweedfs && CGO_ENABLED=0 GOWORK=off $(PROGRESS) seaweedfs $(GO) build -ldflags='-s -w' -o $(@D)/ github.com/seaweedfs/seaweedfs/weed
	@touch $@

# Without the discovery of targets in clouds: 243 of 1,356 packages, and large ones.
$(BIN)/monitoring/promtool: hack/monitoring/go.mod hack/monitoring/go.sum
	@echo "promtool: building promtool from Prometheus $$(awk '$$1 == "github.com/prometheus/prometheus" {print $$2}' hack/monitoring/go.mod) from hack/monitoring (about 4 minutes on 2 cores the first time)" >&2
	@mkdir -p $(@D)
	@cd hack/monitoring && CGO_ENABLED=0 GOWORK=off $(PROGRESS) promtool $(GO) build -tags=remove_all_sd -ldflags='-s -w' -o $(@D)/ github.com/prometheus/prometheus/cmd/promtool
	@touch $@
