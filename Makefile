# Targets for people: `make help` lists them.
SHELL := /usr/bin/env bash -o pipefail -e
GO ?= go
BIN := $(CURDIR)/bin
CONTROLLER_GEN := $(BIN)/controller-gen
GOLANGCI_LINT := $(BIN)/golangci-lint
# Where generated files are.
GENERATED := api config docs internal/redact/rules NOTICE

.PHONY: help
help: ## List the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{ printf "  %-14s %s\n", $$1, $$2 }'

.PHONY: controlplane
controlplane: ## Build kube-apiserver, etcd and kubectl into bin/ (5 to 8 minutes the first time, then at once)
	@hack/controlplane/build.sh >/dev/null

.PHONY: demo
demo: ## Tell the whole story on a real API server; KEEP=1 leaves it running
	@assets=$$(hack/controlplane/build.sh) && mkdir -p $(BIN) && $(GO) build -o $(BIN)/ ./cmd/... ./hack/demo && \
	  KUBEBUILDER_ASSETS=$$assets $(BIN)/demo $(if $(KEEP),--keep)

.PHONY: test
test: ## Run all tests on a real API server, with the race detector
	@assets=$$(hack/controlplane/build.sh) && KUBEBUILDER_ASSETS=$$assets $(GO) test -race -timeout 20m ./...

.PHONY: test-interop
test-interop: ## Run the operator against third-party servers from npm (needs Node.js 20 and npm)
	@command -v node >/dev/null && command -v npm >/dev/null || { echo "test-interop needs node and npm (Node.js 20 or later): \
	  install them, on Debian with 'apt-get install nodejs npm'"; exit 1; }
	@npm ci --ignore-scripts --no-audit --no-fund --prefix hack/interop
	@assets=$$(hack/controlplane/build.sh) && KUBEBUILDER_ASSETS=$$assets $(GO) test -tags interop -count=1 -timeout 10m -run TestInterop ./cmd/manager

.PHONY: fuzz
fuzz: ## Run every fuzz test for FUZZTIME (10s)
	@hack/fuzz.sh $(or $(FUZZTIME),10s)

.PHONY: bench
bench: ## Run the benchmarks, those of the whole manager on a real API server
	@assets=$$(hack/controlplane/build.sh) && KUBEBUILDER_ASSETS=$$assets $(GO) test -run '^$$' -bench . -benchmem \
	  $$(grep -rl --include='*_test.go' '^func Benchmark' internal cmd client | xargs dirname | sort -u | sed 's|^|./|')

.PHONY: lint
lint: $(GOLANGCI_LINT) ## Check style, errors and the dependency rule of docs/design.md
	$(GOLANGCI_LINT) run ./...

.PHONY: generate
generate: $(CONTROLLER_GEN) ## Generate deepcopy, CRDs, roles, rules for secrets, docs/cli.md and the shown parts of docs/rules.md
	$(CONTROLLER_GEN) object crd:generateEmbeddedObjectMeta=false rbac:roleName=agrajag-manager \
	  paths=./api/... paths=./internal/... output:crd:dir=config/crd output:rbac:dir=config/rbac
	cd hack/redactrules && GOFLAGS=-mod=readonly $(GO) run .
	$(GO) run ./hack/rulesdoc
	$(GO) test ./cmd/kubectl-toolhealth -run TestCommandReference -args -update >/dev/null

.PHONY: verify
verify: generate ## Fail if generated files are not current
	@changed=$$(git status --porcelain -- $(GENERATED)) && [ -z "$$changed" ] || { git diff -- $(GENERATED); echo "$$changed"; \
	  echo "generated files are not current: run 'make generate' and commit"; exit 1; }

.PHONY: build
build: ## Build the manager and the kubectl plugin into bin/
	$(GO) build -o $(BIN)/ ./cmd/...

$(CONTROLLER_GEN) $(GOLANGCI_LINT) &: hack/tools/go.mod hack/tools/go.sum
	@echo "building controller-gen and golangci-lint: a few minutes the first time"
	cd hack/tools && GOFLAGS=-mod=readonly $(GO) build -o $(BIN)/ sigs.k8s.io/controller-tools/cmd/controller-gen github.com/golangci/golangci-lint/v2/cmd/golangci-lint
	@touch $(CONTROLLER_GEN) $(GOLANGCI_LINT)
