# Kamino's one entry point. `make` alone lists the targets; each sets up what it needs from a fresh clone
# with nothing but Go, make, git and the module proxy.

SHELL       := bash
.SHELLFLAGS := -eu -o pipefail -c
MAKEFLAGS   += --no-print-directory --no-builtin-rules
.DEFAULT_GOAL := help

GO  ?= go
BIN := bin
# The simulated cloud that the demos are told of: azure or aws.
CLOUD ?= azure

# Static binaries, wherever they were built. Nothing here links C.
export CGO_ENABLED := 0

# A release is a clean tree at a tag; anything else is "devel" with its commit, and publishes no image.
VERSION      ?= $(shell hack/version.sh)
KUBE_VERSION := $(shell sed -n 's|^.*k8s.io/kubernetes v\([0-9][0-9.]*\).*|\1|p' sandbox/go.mod | head -n 1)
CONTAINERD_VERSION := $(shell sed -n 's|^.*github.com/containerd/containerd/v2 v\([0-9][0-9.]*\).*|\1|p' tools/containerd/go.mod | head -n 1)
CLUSTERAPI_VERSION := $(shell sed -n 's|^.*sigs.k8s.io/cluster-api v\([0-9][0-9.]*\).*|\1|p' tools/clusterapi/go.mod | head -n 1)
LINT_VERSION := $(shell sed -n 's|^.*golangci/golangci-lint/v2 v\([0-9][0-9.]*\).*|\1|p' tools/lint/go.mod | head -n 1)
KUBE_PARTS   := $(subst ., ,$(KUBE_VERSION))

# The image that such a binary gives its generalize pods: a release's is its tag's; IMAGE=registry/kamino@sha256:... pins
# another build's. Without either there is none, and --image must name it.
IMAGE ?=
PRODUCT_LDFLAGS := -s -w -X github.com/kamino-dev/kamino/internal/build.Version=$(VERSION) -X github.com/kamino-dev/kamino/internal/build.Image=$(IMAGE)

# What Kubernetes' own build stamps in, twice: without it the sandbox's API server calls itself v0.0.0-master.
kube_stamp = -X $(1).gitVersion=v$(KUBE_VERSION) -X $(1).gitMajor=$(word 1,$(KUBE_PARTS)) \
	-X $(1).gitMinor=$(word 2,$(KUBE_PARTS)) -X $(1).gitTreeState=clean -X $(1).buildDate=1970-01-01T00:00:00Z
SANDBOX_LDFLAGS := -s -w $(call kube_stamp,k8s.io/component-base/version) $(call kube_stamp,k8s.io/client-go/pkg/version)

GOLANGCI_LINT := $(BIN)/golangci-lint-$(LINT_VERSION)

# Where tests find containerd, containerd-shim-runc-v2 and ctr (KAMINO_CONTAINERD_BIN). The tags leave out
# what asks for a C library or a daemon of its own.
CONTAINERD         := $(BIN)/containerd-$(CONTAINERD_VERSION)
CONTAINERD_TAGS    := no_btrfs no_devmapper no_zfs no_erofs no_nri no_tracing osusergo netgo static_build urfave_cli_no_docs
CONTAINERD_PKG     := github.com/containerd/containerd/v2
CONTAINERD_LDFLAGS := -s -w -X $(CONTAINERD_PKG)/version.Version=v$(CONTAINERD_VERSION) -X $(CONTAINERD_PKG)/version.Revision=module

# Where tests and the sandbox find Cluster API's own controllers and definitions (KAMINO_CLUSTERAPI_BIN).
CLUSTERAPI := $(BIN)/clusterapi-$(CLUSTERAPI_VERSION)

# Both binaries are compiled with the flags of a plain `go test`: what they share with each other, with tests and with the linter is
# compiled once. Images, which are published, are built with -trimpath (Containerfile, .ko.yaml).
BUILD_KAMINO  := $(GO) build -ldflags '$(PRODUCT_LDFLAGS)' -o $(BIN)/kamino ./cmd/kamino
BUILD_SANDBOX := $(GO) build -v -ldflags '$(SANDBOX_LDFLAGS)' -o ../$(BIN)/kamino-sandbox ./cmd/kamino-sandbox

.PHONY: help
help: ## List the targets.
	@awk 'BEGIN { FS = ":.*## " } /^[a-z-]+:.*## / { printf "  make %-18s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: demo
demo: build ## Tell the whole story in a terminal: a pool, a capture, and the copy that joins at once (CLOUD=aws: on AWS).
	@$(BIN)/kamino-sandbox demo --cloud $(CLOUD) --kamino $(BIN)/kamino

.PHONY: demo-kubeadm
demo-kubeadm: build ## The same with nodes of kubeadm's, which join by themselves: the donor does not return.
	@$(BIN)/kamino-sandbox demo --kubeadm --cloud $(CLOUD) --kamino $(BIN)/kamino

.PHONY: demo-rollback
demo-rollback: build ## Let a bad image through, untried: its nodes do not join, and the pool goes back by itself.
	@$(BIN)/kamino-sandbox demo --rollback --cloud $(CLOUD) --kamino $(BIN)/kamino

.PHONY: demo-clusterapi
demo-clusterapi: build $(CLUSTERAPI) ## The same with nodes that Cluster API's own controllers build, as a MachineDeployment on AWS.
	@$(BIN)/kamino-sandbox demo --capi --capi-binaries $(CLUSTERAPI) --kamino $(BIN)/kamino

# The sandbox comes first: its build shows progress, and nine tenths of what kamino needs are compiled then.
.PHONY: build
build: $(BIN)/kamino-sandbox $(BIN)/kamino ## Build bin/kamino and bin/kamino-sandbox.

# Tests are short of processor time and not of memory: without GOGC, garbage collection takes a fifth of the processor time.
test-product test-sandbox test-long test-times test-machines test-machines-core: export GOGC = 400
test-product test-sandbox test-long test-times test-machines test-machines-core: export GOMEMLIMIT = 4GiB

# What end-to-end tests find in their environment. Kubernetes' version is stamped into test binaries, which are API servers, too.
SUITE_ENV = KUBEBUILDER_ASSETS=$(CURDIR)/$(BIN)/assets KAMINO_CLUSTERAPI_BIN=$(CURDIR)/$(CLUSTERAPI) \
	KAMINO_BIN=$(CURDIR)/$(BIN)/kamino KAMINO_SANDBOX_BIN=$(CURDIR)/$(BIN)/kamino-sandbox
TESTSUITE = $(GO) run ./hack/testsuite

# docs/contribute/tests.md has the layers of tests, what each sees, and what each package takes.
.PHONY: test
test: test-product test-sandbox ## Run the short suite: unit, API server, engine, providers, one story per cloud and donor. No root.

# What vet finds is part of lint. Without RAPID_CHECKS and RAPID_STEPS, rapid draws a fifth of its usual 100 examples with -short.
.PHONY: test-product
test-product: assets
	@echo "== tests of the product"
	@KUBEBUILDER_ASSETS=$(CURDIR)/$(BIN)/assets RAPID_CHECKS=500 RAPID_STEPS=60 $(GO) test -short -vet=off -timeout 30m ./...

# Go's cache of results does not know that bin/kamino has changed: the stories are never answered from it.
.PHONY: test-sandbox
test-sandbox: build
	@echo "== tests of the sandbox, and stories of the product in it"
	@cd sandbox && $(GO) test -short -vet=off -timeout 30m $$($(GO) list ./... | grep -v -e /e2e -e /capi$$)
	@cd sandbox && $(SUITE_ENV) $(GO) test -short -vet=off -count=1 -timeout 30m ./e2e

# One part of n: SHARD=2/9. Cluster API's controllers are built only for a shard that runs them.
SHARD ?=
.PHONY: test-long
test-long: build assets ## Run the long suite: weeks, all lost calls, kills, Cluster API, all demos (SHARD=k/n: one part of it).
	@if $(TESTSUITE) needs -shard "$(SHARD)" KAMINO_CLUSTERAPI_BIN; then $(MAKE) $(CLUSTERAPI); fi
	@$(SUITE_ENV) $(TESTSUITE) long -shard "$(SHARD)" -flags "'-ldflags=$(SANDBOX_LDFLAGS)'"

# TIMES=short or TIMES=long measures one of both. PACKAGES="internal/capture" measures these packages alone.
TIMES ?= short long
PACKAGES ?=
.PHONY: test-times
test-times: build assets $(CLUSTERAPI) ## Measure both suites on an idle machine, and write docs/contribute/tests.md and the times that shards go by.
	@for suite in $(TIMES); do \
		$(SUITE_ENV) $(TESTSUITE) times $$([[ $$suite == short ]] || echo -long) -flags "'-ldflags=$(SANDBOX_LDFLAGS)'" $(PACKAGES); \
	done

# A log that is cut off must not lose why a test failed: CI prints only failures.
MACHINES_TEST = $(GO) test -tags machines -vet=off -ldflags '$(SANDBOX_LDFLAGS)' -count=1 -timeout 60m $(if $(CI),,-v)
# Chromium of Debian, and axe-core of the npm registry. A missing browser is an error, so that the target cannot pass without a check.
BROWSER ?= $(shell command -v chromium || command -v chromium-headless-shell || command -v google-chrome)
AXE_VERSION := 4.14.1
AXE := $(BIN)/axe-$(AXE_VERSION)
.PHONY: test-browser
test-browser: browser $(AXE) ## Open the dashboard in Chromium at two widths, light and dark, and check it with axe-core (Chromium, npm).
	@KAMINO_BROWSER=$(BROWSER) KAMINO_AXE=$(CURDIR)/$(AXE)/axe.min.js $(GO) test -vet=off -count=1 -run 'TestInABrowser$$' -v ./internal/dashboard/web

.PHONY: screenshots
screenshots: browser ## Render the images of docs/tasks/dashboard.md (Chromium).
	@$(GO) run ./hack/screenshots -browser $(BROWSER)

.PHONY: browser
browser:
	@[[ -n "$(BROWSER)" ]] || { echo "Chromium is not installed: apt-get install chromium, or set BROWSER"; exit 1; }

$(AXE):
	@rm -rf $@ $@.new && mkdir -p $@.new
	@cd $@.new && ../../hack/retry.sh npm pack --silent axe-core@$(AXE_VERSION) >/dev/null && tar -xzf axe-core-*.tgz --strip-components 1 package/axe.min.js package/LICENSE
	@mv $@.new $@

# A scanner of the module proxy. The scanner needs no network for the test.
OSV_VERSION := v2.5.0
OSV_SCANNER := $(BIN)/osv-scanner-$(OSV_VERSION)
.PHONY: test-sbom
test-sbom: $(OSV_SCANNER) ## Let osv-scanner read the documents of `kamino sbom` (builds the scanner: 15 minutes on two cores).
	@KAMINO_OSV_SCANNER=$(CURDIR)/$(OSV_SCANNER) $(GO) test -vet=off -count=1 -run 'TestScanner$$' -v ./internal/contents/sbom

$(OSV_SCANNER):
	@GOBIN=$(CURDIR)/$@.new hack/retry.sh $(GO) install github.com/google/osv-scanner/v2/cmd/osv-scanner@$(OSV_VERSION)
	@mv $@.new/osv-scanner $@ && rmdir $@.new

# A shard without real kubelets and stores builds neither of both from source.
.PHONY: test-machines
test-machines: $(BIN)/kamino ## Prove identity on real Debian machines in containers: root and Debian packages; says which (SHARD=k/n: one part).
	@tests=$$($(TESTSUITE) pattern -machines -shard "$(SHARD)"); \
		if [[ $$tests =~ TestNodes|TestStores ]]; then $(MAKE) $(BIN)/nodes $(CONTAINERD); fi; \
		echo "== $$tests on real machines"; \
		cd sandbox && KAMINO_BIN=$(CURDIR)/$(BIN)/kamino KAMINO_NODE_BIN=$(CURDIR)/$(BIN)/nodes KAMINO_CONTAINERD_BIN=$(CURDIR)/$(CONTAINERD) \
			$(MACHINES_TEST) -run "$$tests" ./machine/real

.PHONY: test-machines-core
test-machines-core: $(BIN)/kamino ## The same without real kubelets and without a containerd built from source (a part of test-machines).
	@cd sandbox && KAMINO_BIN=$(CURDIR)/$(BIN)/kamino $(MACHINES_TEST) -short ./machine/real

.PHONY: clusterapi
clusterapi: $(CLUSTERAPI) ## Build Cluster API's own controllers, for tests and sandboxes that run them.

.PHONY: containerd
containerd: $(CONTAINERD) ## Build a real containerd with its shim and ctr, for tests that ask one.

.PHONY: measure-disk
measure-disk: $(BIN)/kamino ## Measure what tools leave on one disk, rule by rule, and the cost on 200,000 files (root; no test).
	@cd sandbox && KAMINO_MEASURE=1 KAMINO_BIN=$(CURDIR)/$(BIN)/kamino $(GO) test -tags machines -count=1 -timeout 30m -run 'TestTools|TestScale' -v ./machine/real

# A target that minimizes what it found interesting does nothing else for up to a minute each time.
FUZZTIME ?= 2m
.PHONY: fuzz
fuzz: ## Run every fuzz target of the product for FUZZTIME (2m) each.
	@grep -rHoE --include="*_test.go" '^func Fuzz[A-Za-z]+' internal | sed 's|/[^/]*_test.go:func | |' | while read -r dir target; do \
		$(GO) test -run xxx -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 10x "./$$dir" </dev/null; \
	done

.PHONY: race
race: assets ## Run the product's tests under the race detector (needs a C compiler).
	@CGO_ENABLED=1 KUBEBUILDER_ASSETS=$(CURDIR)/$(BIN)/assets $(GO) test -race -timeout 60m ./...

# etcd, kube-apiserver and kubectl under the names that envtest looks for, all links to one binary.
.PHONY: assets
assets: $(BIN)/kamino-sandbox
	@$(BIN)/kamino-sandbox assets $(BIN)/assets >/dev/null

.PHONY: lint
lint: $(GOLANGCI_LINT) $(BIN)/.modules ## Run the linters, import walls included, on both modules.
	@$(GO) test -run 'Walls|Pure' ./cmd/kamino
	@hack/lint.sh $(CURDIR)/$(GOLANGCI_LINT) .
	@hack/lint.sh $(CURDIR)/$(GOLANGCI_LINT) sandbox

.PHONY: generate
generate: $(BIN)/controller-gen ## Write the deep copies, the CustomResourceDefinitions, and the chart's share of them again.
	@$(BIN)/controller-gen object paths=./api/... crd output:crd:artifacts:config=api/crds
	@$(GO) run ./charts/generate

.PHONY: verify
verify: generate ## Generate, then fail if the tree is not what is committed.
	@hack/verify-clean.sh

# More flags for it: BENCH="--only scale --profiles DIRECTORY" measures the controller alone and keeps its profiles.
BENCH ?=
.PHONY: bench
bench: build ## Measure a capture, the controller with 15,000 nodes, status and plan, and probation (12 minutes): docs/reference/benchmarks.md.
	@cd sandbox && $(GO) build -ldflags '$(SANDBOX_LDFLAGS)' -o ../$(BIN)/kamino-bench ./cmd/kamino-bench
	@$(GO) test -vet=off -run xxx -bench Probation ./internal/policy/week
	@$(BIN)/kamino-bench --kamino $(BIN)/kamino --sandbox $(BIN)/kamino-sandbox --json $(BIN)/bench.json $(if $(BENCH),$(BENCH),--page docs/reference/benchmarks.md)

RELEASE_TOOLS := $(BIN)/release-tools
# Each of four platforms compiles everything once. goreleaser's own limit of one hour is too short for two cores.
GORELEASER := PATH="$(CURDIR)/$(RELEASE_TOOLS):$$PATH" goreleaser release --clean --parallelism 1 --timeout 4h

release-snapshot release: export GOGC = 400
release-snapshot release: export GOMEMLIMIT = 4GiB

.PHONY: release-tools
release-tools: $(RELEASE_TOOLS)/goreleaser $(RELEASE_TOOLS)/cyclonedx-gomod $(RELEASE_TOOLS)/helm ## Build goreleaser, cyclonedx-gomod and Helm.

.PHONY: release-snapshot
release-snapshot: release-tools ## Build the files of a release into dist, without image and signatures (many minutes): docs/contribute/release.md.
	@$(GORELEASER) --snapshot --skip=sign

.PHONY: test-release
test-release: assets ## Install from the files of release-snapshot: checksums, plugin of kubectl, completion, SBOM, chart.
	@KUBEBUILDER_ASSETS=$(CURDIR)/$(BIN)/assets $(GO) test -tags release -vet=off -count=1 ./hack/release

# Only the workflow of a tag runs these: a registry and an identity for signatures are needed. The last line of release-image is the
# image by its digest.
.PHONY: release
release: release-tools
	@$(GORELEASER)

.PHONY: release-image
release-image: $(RELEASE_TOOLS)/ko
	@$(RELEASE_TOOLS)/ko build --bare --platform linux/amd64,linux/arm64 --tags "$(VERSION)" ./cmd/kamino

# Pages stay readable on GitHub: the site is the same Markdown with a navigation. A link to a missing page fails.
.PHONY: site
site: ## Render README and docs as a static site into bin/site.
	@rm -rf $(BIN)/site
	@cd tools/site && ../../hack/retry.sh $(GO) run . ../.. ../../$(BIN)/site
	@echo "open $(BIN)/site/index.html"

.PHONY: vuln
vuln: $(BIN)/govulncheck $(BIN)/.modules ## Look for known vulnerabilities in what the binaries really call.
	@hack/vuln.sh $(CURDIR)/$(BIN)/govulncheck

.PHONY: clean
clean: ## Remove what was built (the Go build cache stays).
	@rm -rf $(BIN) dist

# Go knows better than make what has changed, so both binaries are always offered to it.
.PHONY: FORCE
FORCE:

# With Go's default GOGC of 100, the compiler spends a quarter of its processor time on garbage collection. The limit keeps the
# largest package (the SDK of EC2, 3.5 GiB) near what it takes anyway.
$(BIN)/kamino $(BIN)/kamino-sandbox: export GOGC = 400
$(BIN)/kamino $(BIN)/kamino-sandbox: export GOMEMLIMIT = 4GiB

$(BIN)/kamino: FORCE $(BIN)/.modules
	@$(BUILD_KAMINO)

$(BIN)/kamino-sandbox: FORCE $(BIN)/.modules
	@cd sandbox && ../hack/build-progress.sh ../$(BIN)/kamino-sandbox -- $(BUILD_SANDBOX)

# What real nodes run, and what runs in their containers.
$(BIN)/nodes: FORCE $(BIN)/.modules
	@mkdir -p $@
	@cd sandbox && $(GO) build -ldflags '$(SANDBOX_LDFLAGS)' -o ../$@/ k8s.io/kubernetes/cmd/kubelet k8s.io/kubernetes/cmd/kubeadm ./machine/real/container

# A transfer from the module proxy can break off; what has arrived stays, so another try goes on from there.
$(BIN)/.modules: go.mod go.sum sandbox/go.mod sandbox/go.sum
	@mkdir -p $(BIN)
	@hack/retry.sh $(GO) mod download
	@cd sandbox && ../hack/retry.sh $(GO) mod download
	@touch $@

$(BIN)/controller-gen: tools/go.mod tools/go.sum
	@mkdir -p $(BIN)
	@cd tools && ../hack/retry.sh $(GO) mod download && $(GO) build -o ../$(BIN)/controller-gen sigs.k8s.io/controller-tools/cmd/controller-gen

# goreleaser's modules are many, and its build fetches only those that the program needs.
$(RELEASE_TOOLS)/%: tools/release/go.mod tools/release/go.sum
	@mkdir -p $(RELEASE_TOOLS)
	@echo "building $* (some minutes, once)"
	@cd tools/release && ../../hack/retry.sh $(GO) build -ldflags '-s -w' -o ../../$@ $$($(GO) list -f '{{.ImportPath}}' tool | grep -E '/$*(/v[0-9]+)?$$')

$(RELEASE_TOOLS)/helm: sandbox/go.mod sandbox/go.sum
	@mkdir -p $(RELEASE_TOOLS)
	@cd sandbox && ../hack/retry.sh $(GO) build -ldflags '-s -w' -o ../$@ helm.sh/helm/v4/cmd/helm

$(BIN)/govulncheck: tools/vuln/go.mod tools/vuln/go.sum
	@mkdir -p $(BIN)
	@cd tools/vuln && ../../hack/retry.sh $(GO) mod download && $(GO) build -o ../../$(BIN)/govulncheck golang.org/x/vuln/cmd/govulncheck

# Keyed by its version, and complete once it has its name.
$(CONTAINERD): tools/containerd/go.mod tools/containerd/go.sum
	@echo "building containerd $(CONTAINERD_VERSION) (about three minutes, once)"
	@rm -rf $@ $@.new && mkdir -p $@.new
	@cd tools/containerd && ../../hack/retry.sh $(GO) mod download && $(GO) build -tags '$(CONTAINERD_TAGS)' -ldflags '$(CONTAINERD_LDFLAGS)' -o ../../$@.new/ \
		$(CONTAINERD_PKG)/cmd/containerd $(CONTAINERD_PKG)/cmd/containerd-shim-runc-v2 $(CONTAINERD_PKG)/cmd/ctr
	@mv $@.new $@

# The definitions are taken out of the module as they are: nothing of them is kept here.
$(CLUSTERAPI): tools/clusterapi/go.mod tools/clusterapi/go.sum
	@echo "building Cluster API $(CLUSTERAPI_VERSION) (about four minutes, once)"
	@rm -rf $@ $@.new && mkdir -p $@.new/definitions $@.new/webhooks
	@cd tools/clusterapi && ../../hack/retry.sh $(GO) mod download && $(GO) build -ldflags '-s -w' -o ../../$@.new/ \
		sigs.k8s.io/cluster-api/core sigs.k8s.io/cluster-api/bootstrap/kubeadm sigs.k8s.io/cluster-api/cmd/clusterctl
	@from=$$(cd tools/clusterapi && $(GO) list -m -f '{{.Dir}}' sigs.k8s.io/cluster-api) && \
		install -m 644 $$from/core/config/crd/bases/*.yaml $$from/bootstrap/kubeadm/config/crd/bases/*.yaml $$from/cmd/clusterctl/config/crd/bases/*_providers.yaml $@.new/definitions/ && \
		install -m 644 $$from/core/config/webhook/manifests.yaml $@.new/webhooks/core.yaml && \
		install -m 644 $$from/bootstrap/kubeadm/config/webhook/manifests.yaml $@.new/webhooks/kubeadm.yaml
	@mv $@.new $@

# Keyed by its version, so that another checkout's cache never answers with an older linter.
$(GOLANGCI_LINT): tools/lint/go.mod tools/lint/go.sum
	@mkdir -p $(BIN)
	@echo "building golangci-lint $(LINT_VERSION) (about two minutes, once)"
	@cd tools/lint && ../../hack/retry.sh $(GO) mod download && $(GO) build -o ../../$(GOLANGCI_LINT) github.com/golangci/golangci-lint/v2/cmd/golangci-lint
