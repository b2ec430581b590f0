# `make` alone prints what there is. Every target works from a clean clone with
# nothing but Go: tools and control plane are built from pinned Go modules.

SHELL := /usr/bin/env bash -o pipefail
.SHELLFLAGS := -euc
.DEFAULT_GOAL := help

BIN       := $(CURDIR)/bin
TOOLS     := $(BIN)/tools
ARTIFACTS ?= $(CURDIR)/artifacts
IMG       ?= leasehold:dev
GO        ?= go

##@ Use

.PHONY: help
help: ## Show this help.
	@awk 'BEGIN {FS = ":.*##"} /^##@/ {printf "\n\033[1m%s\033[0m\n", substr($$0, 5)} /^[a-zA-Z_0-9-]+:.*?##/ {printf "  \033[36m%-16s\033[0m %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: controlplane
controlplane: needs-go ## Build etcd, kube-apiserver, kube-controller-manager and kubectl (5 minutes once).
	@cd hack/controlplane && $(GO) run . -out $(BIN)/controlplane -go $(GO)

.PHONY: run
run: controlplane ## Run the operator, two replicas of it, beside a control plane (ARGS=-once stops when the samples are Ready).
	@$(GO) build -o $(BIN)/manager .
	@mkdir -p $(BIN)/tools && $(GO) build -o $(BIN)/tools/run ./hack/run
	@exec $(BIN)/tools/run -manager $(BIN)/manager $(ARGS)

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

##@ Generate and check

.PHONY: generate
generate: $(TOOLS)/controller-gen ## Generate DeepCopy methods.
	$(TOOLS)/controller-gen object paths=./api/...

.PHONY: manifests
manifests: $(TOOLS)/controller-gen ## Generate CRDs, the manager's ClusterRole and the webhook configurations.
	$(TOOLS)/controller-gen crd paths=./api/... output:crd:dir=config/crd/bases

##@ Tools

# Every tool is a `tool` directive of hack/tools/go.mod.
$(TOOLS)/%: hack/tools/go.mod hack/tools/go.sum
	@echo "building $* from hack/tools" >&2
	@mkdir -p $(TOOLS)
	@cd hack/tools && $(GO) build -o $(TOOLS)/ $$($(GO) list -f '{{.ImportPath}}' tool | grep -E '(^|/)$*(/v[0-9]+)?$$')
	@touch $@
