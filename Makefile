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
