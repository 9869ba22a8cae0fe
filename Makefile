# Targets for building and testing Kamino. `make` without a target lists them. Each target works in a fresh clone
# with only Go, make, git and the module proxy.

SHELL       := bash
.SHELLFLAGS := -eu -o pipefail -c
MAKEFLAGS   += --no-print-directory --no-builtin-rules
.DEFAULT_GOAL := help

GO  ?= go
BIN := bin
# The simulated cloud of the demos: azure or aws.
CLOUD ?= azure

# Static binaries on every build machine. No package here links C.
export CGO_ENABLED := 0

# A release is a clean tree at a tag. Other builds are "devel" with the commit, and publish no image.
VERSION      ?= $(shell hack/version.sh)
KUBE_VERSION := $(shell sed -n 's|^.*k8s.io/kubernetes v\([0-9][0-9.]*\).*|\1|p' sandbox/go.mod | head -n 1)
CONTAINERD_VERSION := $(shell sed -n 's|^.*github.com/containerd/containerd/v2 v\([0-9][0-9.]*\).*|\1|p' tools/containerd/go.mod | head -n 1)
CLUSTERAPI_VERSION := $(shell sed -n 's|^.*sigs.k8s.io/cluster-api v\([0-9][0-9.]*\).*|\1|p' tools/clusterapi/go.mod | head -n 1)
CLUSTERAPI_AWS_VERSION := $(shell sed -n 's|^.*sigs.k8s.io/cluster-api-provider-aws/v2 v\([0-9][0-9.]*\).*|\1|p' tools/clusterapi-aws/go.mod | head -n 1)
KARPENTER_VERSION := $(shell sed -n 's|^.*github.com/aws/karpenter-provider-aws v\([0-9][0-9.]*\).*|\1|p' tools/karpenter-aws/go.mod | head -n 1)
LINT_VERSION := $(shell sed -n 's|^.*golangci/golangci-lint/v2 v\([0-9][0-9.]*\).*|\1|p' tools/lint/go.mod | head -n 1)
KUBE_PARTS   := $(subst ., ,$(KUBE_VERSION))

# The image of the pods on nodes. A release uses the image of the tag. For other builds, set
# IMAGE=registry/kamino-node@sha256:... here, or pass --image to kamino.
IMAGE ?=
PRODUCT_LDFLAGS := -s -w -X github.com/kamino-dev/kamino/internal/build.Version=$(VERSION) -X github.com/kamino-dev/kamino/internal/build.Image=$(IMAGE)

# Kubernetes' own build sets these variables in two packages. Without them, the sandbox's API server reports v0.0.0-master.
kube_stamp = -X $(1).gitVersion=v$(KUBE_VERSION) -X $(1).gitMajor=$(word 1,$(KUBE_PARTS)) \
	-X $(1).gitMinor=$(word 2,$(KUBE_PARTS)) -X $(1).gitTreeState=clean -X $(1).buildDate=1970-01-01T00:00:00Z
SANDBOX_LDFLAGS := -s -w $(call kube_stamp,k8s.io/component-base/version) $(call kube_stamp,k8s.io/client-go/pkg/version)

GOLANGCI_LINT := $(BIN)/golangci-lint-$(LINT_VERSION)

# Directories of foreign programs that tests run, each built by a script in tools/. The names contain the versions.
# containerd, containerd-shim-runc-v2 and ctr (KAMINO_CONTAINERD_BIN).
CONTAINERD := $(BIN)/containerd-$(CONTAINERD_VERSION)
# Cluster API's own controllers and definitions, for tests and the sandbox (KAMINO_CLUSTERAPI_BIN).
CLUSTERAPI := $(BIN)/clusterapi-$(CLUSTERAPI_VERSION)
# The real infrastructure provider for AWS (KAMINO_CLUSTERAPI_AWS_BIN). Its dependencies differ from Cluster API's.
CLUSTERAPI_AWS := $(BIN)/cluster-api-provider-aws-$(CLUSTERAPI_AWS_VERSION)
# Karpenter's own controllers and definitions (KAMINO_KARPENTER_BIN).
KARPENTER := $(BIN)/karpenter-aws-$(KARPENTER_VERSION)

# All binaries use the flags of a plain `go test`, so that binaries, tests and the linter share compiled packages.
# Published images use -trimpath (Containerfile, .ko.yaml).
BUILD_KAMINO  := $(GO) build -ldflags '$(PRODUCT_LDFLAGS)' -o $(BIN)/ ./cmd/kamino ./cmd/kamino-node
BUILD_SANDBOX := $(GO) build -v -ldflags '$(SANDBOX_LDFLAGS)' -o ../$(BIN)/kamino-sandbox ./cmd/kamino-sandbox

.PHONY: help
help: ## List the targets.
	@awk 'BEGIN { FS = ":.*## " } /^[a-z-]+:.*## / { printf "  make %-18s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: demo
demo: build ## Show a capture in a terminal: a pool, a donor, and a new node from the image (CLOUD=aws: on AWS).
	@$(BIN)/kamino-sandbox demo --cloud $(CLOUD) --kamino $(BIN)/kamino

.PHONY: demo-kubeadm
demo-kubeadm: build ## Show a capture of kubeadm nodes, which join with their own credential.
	@$(BIN)/kamino-sandbox demo --kubeadm --cloud $(CLOUD) --kamino $(BIN)/kamino

.PHONY: demo-rollback
demo-rollback: build ## Show a bad image without a trial: new nodes fail to join, and Kamino rolls back automatically.
	@$(BIN)/kamino-sandbox demo --rollback --cloud $(CLOUD) --kamino $(BIN)/kamino

.PHONY: demo-pioneer
demo-pioneer: build ## Show a pioneer: Kamino patches one node with apt and captures the node; no other node runs apt (Debian or Ubuntu).
	@$(BIN)/kamino-sandbox demo --pioneer --cloud $(CLOUD) --kamino $(BIN)/kamino

.PHONY: demo-clusterapi
demo-clusterapi: build $(CLUSTERAPI) ## Show a capture of nodes from Cluster API's own controllers: a MachineDeployment on AWS.
	@$(BIN)/kamino-sandbox demo --capi --capi-binaries $(CLUSTERAPI) --kamino $(BIN)/kamino

# The sandbox is first: the build of the sandbox shows progress, and compiles nine tenths of kamino's packages.
.PHONY: build
build: $(BIN)/kamino-sandbox $(BIN)/kamino ## Build bin/kamino, bin/kamino-node and bin/kamino-sandbox.

# Tests lack processor time, not memory. Without GOGC, garbage collection takes a fifth of the processor time.
test-product test-sandbox test-long test-times test-machines test-machines-core: export GOGC = 400
test-product test-sandbox test-long test-times test-machines test-machines-core: export GOMEMLIMIT = 4GiB

# Environment of end-to-end tests. Test binaries also run as API servers, so SANDBOX_LDFLAGS set Kubernetes' version there.
SUITE_ENV = KUBEBUILDER_ASSETS=$(CURDIR)/$(BIN)/assets KAMINO_CLUSTERAPI_BIN=$(CURDIR)/$(CLUSTERAPI) \
	KAMINO_CLUSTERAPI_AWS_BIN=$(CURDIR)/$(CLUSTERAPI_AWS) KAMINO_KARPENTER_BIN=$(CURDIR)/$(KARPENTER) \
	KAMINO_PREVIOUS=$(CURDIR)/$(PREVIOUS) KAMINO_BIN=$(CURDIR)/$(BIN)/kamino KAMINO_SANDBOX_BIN=$(CURDIR)/$(BIN)/kamino-sandbox
TESTSUITE = GOTESTSUM=$(CURDIR)/$(BIN)/gotestsum SANDBOX_FLAGS="'-ldflags=$(SANDBOX_LDFLAGS)'" hack/testsuite/testsuite.sh

# The programs and the chart of the version before, whose commit hack/previous names, for the test of the upgrade and the way back. A
# clone without that commit skips the test, and says so.
PREVIOUS := $(BIN)/previous
.PHONY: previous
previous: $(PREVIOUS)/kamino
$(PREVIOUS)/kamino: hack/previous
	@rm -rf $(PREVIOUS) && mkdir -p $(PREVIOUS)/source
	@git archive $$(cat hack/previous) | tar -x -C $(PREVIOUS)/source
	@cd $(PREVIOUS)/source && $(GO) build -ldflags '-s -w' -o ../ ./cmd/kamino ./cmd/kamino-node
	@mv $(PREVIOUS)/source/charts/kamino $(PREVIOUS)/chart && rm -rf $(PREVIOUS)/source && touch $@

# docs/contribute/tests.md describes the layers of tests and the time of each package.
.PHONY: test
test: test-product test-sandbox ## Run the short suite: unit, API server, engine, providers, one story per cloud and donor. No root.

# vet runs in lint. Without RAPID_CHECKS and RAPID_STEPS, rapid draws only a fifth of the usual 100 examples with -short.
.PHONY: test-product
test-product: assets
	@echo "== tests of the product"
	@KUBEBUILDER_ASSETS=$(CURDIR)/$(BIN)/assets RAPID_CHECKS=500 RAPID_STEPS=60 $(GO) test -short -vet=off -timeout 30m ./...

# Go's test cache does not see changes of bin/kamino, so -count=1 disables the cache for e2e tests.
.PHONY: test-sandbox
test-sandbox: build
	@echo "== tests of the sandbox, and stories of the product in it"
	@cd sandbox && $(GO) test -short -vet=off -timeout 30m $$($(GO) list ./... | grep -v -e /e2e -e /capi$$)
	@cd sandbox && $(SUITE_ENV) $(GO) test -short -vet=off -count=1 -timeout 30m ./e2e

# SHARD=2/9 runs part 2 of 9. Only shards that run Cluster API's controllers build them, and likewise its real provider and Karpenter.
SHARD ?=
.PHONY: test-long
test-long: build assets $(BIN)/gotestsum ## Run the long suite: simulated weeks, lost calls, kills, Cluster API, all demos (SHARD=k/n: one part).
	@if $(TESTSUITE) needs "$(SHARD)" KAMINO_CLUSTERAPI_BIN; then $(MAKE) $(CLUSTERAPI); fi
	@if $(TESTSUITE) needs "$(SHARD)" KAMINO_CLUSTERAPI_AWS_BIN; then $(MAKE) $(CLUSTERAPI_AWS); fi
	@if $(TESTSUITE) needs "$(SHARD)" KAMINO_KARPENTER_BIN; then $(MAKE) $(KARPENTER); fi
	@if git cat-file -e $$(cat hack/previous) 2>/dev/null; then $(MAKE) previous; else echo "no history: the test of the way back is skipped"; fi
	@$(SUITE_ENV) $(TESTSUITE) run long "$(SHARD)"

# TIMES=short or TIMES=long measures one suite, and TIMES=machines the tests on real machines. PACKAGES="internal/capture" measures only
# these packages.
TIMES ?= short long
PACKAGES ?=
.PHONY: test-times
test-times: build assets $(BIN)/gotestsum $(if $(filter long,$(TIMES)),$(CLUSTERAPI) $(CLUSTERAPI_AWS) $(KARPENTER)) ## Measure both suites on an idle machine. Write docs/contribute/tests.md and the times for shards.
	@if [[ " $(TIMES) " == *" machines "* ]]; then $(MAKE) test-machines MACHINES_COMMAND="times machines"; fi
	@for suite in $(filter-out machines,$(TIMES)); do $(SUITE_ENV) $(TESTSUITE) times $$suite $(PACKAGES); done

# Chromium from Debian, and axe-core from the npm registry. A missing browser is an error: the target must not pass without
# a check.
# The window of other builds is at least 500 pixels wide.
BROWSER ?= $(shell command -v chromium-headless-shell || command -v chromium || command -v google-chrome)
AXE_VERSION := 4.14.1
AXE := $(BIN)/axe-$(AXE_VERSION)
.PHONY: test-browser
test-browser: browser $(AXE) ## Open the dashboard in Chromium at two widths, light and dark, and run axe-core (Chromium, npm).
	@KAMINO_BROWSER=$(BROWSER) KAMINO_AXE=$(CURDIR)/$(AXE)/axe.min.js $(GO) test -vet=off -count=1 -run 'TestInABrowser$$' -v ./internal/dashboard/web

.PHONY: picture
picture: build ## Capture a node in a sandbox, and write the terminal's last screen to docs/images/progress.svg.
	@hack/picture/progress.sh $(CURDIR)/$(BIN)

.PHONY: screenshots
screenshots: browser docs-site ## Render the images of the dashboard and of the documentation's site (Chromium).
	@$(GO) run ./hack/screenshots -browser $(BROWSER) -site $(BIN)/site

.PHONY: browser
browser:
	@[[ -n "$(BROWSER)" ]] || { echo "Chromium is not installed: apt-get install chromium-headless-shell, or set BROWSER"; exit 1; }

$(AXE):
	@rm -rf $@ $@.new && mkdir -p $@.new
	@cd $@.new && ../../hack/retry.sh npm pack --silent axe-core@$(AXE_VERSION) >/dev/null && tar -xzf axe-core-*.tgz --strip-components 1 package/axe.min.js package/LICENSE
	@mv $@.new $@

# A scanner from the module proxy. The test of the scanner needs no network.
OSV_VERSION := v2.5.0
OSV_SCANNER := $(BIN)/osv-scanner-$(OSV_VERSION)
.PHONY: test-sbom
test-sbom: $(OSV_SCANNER) ## Check the output of `kamino sbom` with osv-scanner (builds the scanner: 15 minutes on two cores).
	@KAMINO_OSV_SCANNER=$(CURDIR)/$(OSV_SCANNER) $(GO) test -vet=off -count=1 -run 'TestScanner$$' -v ./internal/contents/sbom

$(OSV_SCANNER):
	@GOBIN=$(CURDIR)/$@.new hack/retry.sh $(GO) install github.com/google/osv-scanner/v2/cmd/osv-scanner@$(OSV_VERSION)
	@mv $@.new/osv-scanner $@ && rmdir $@.new

# A shard without tests of real kubelets and stores builds neither kubelet nor containerd from source.
MACHINES_TEST = KAMINO_AGENT_BIN=$(CURDIR)/$(BIN)/kamino-node KAMINO_NODE_BIN=$(CURDIR)/$(BIN)/nodes KAMINO_CONTAINERD_BIN=$(CURDIR)/$(CONTAINERD) \
	GOTESTSUM_FORMAT=testname $(TESTSUITE)
MACHINES_COMMAND ?= run machines "$(SHARD)"
.PHONY: test-machines
test-machines: $(BIN)/kamino $(BIN)/gotestsum ## Test identity on real Debian machines in containers. Needs root and Debian packages (SHARD=k/n: one part).
	@if $(TESTSUITE) list machines "$(SHARD)" | grep -qw -e TestNodes -e TestStores; then $(MAKE) $(BIN)/nodes $(CONTAINERD); fi
	@$(MACHINES_TEST) $(MACHINES_COMMAND)

.PHONY: test-machines-core
test-machines-core: $(BIN)/kamino $(BIN)/gotestsum ## Run the part of test-machines without real kubelets and without containerd from source.
	@$(MACHINES_TEST) run machines "$(SHARD)" -test.short

.PHONY: clusterapi
clusterapi: $(CLUSTERAPI) ## Build Cluster API's own controllers, for tests and sandboxes that run them.

.PHONY: clusterapi-aws
clusterapi-aws: $(CLUSTERAPI_AWS) ## Build Cluster API's real infrastructure provider for AWS, for tests that run the provider.

.PHONY: karpenter-aws
karpenter-aws: $(KARPENTER) ## Build Karpenter with its provider for AWS, for sandboxes that run it.

.PHONY: containerd
containerd: $(CONTAINERD) ## Build containerd with shim and ctr, for tests with a real containerd.

.PHONY: measure-disk
measure-disk: $(BIN)/kamino ## Measure leftovers of other tools on one disk, per rule, and the cost on 200,000 files (root; no test).
	@cd sandbox && KAMINO_MEASURE=1 KAMINO_AGENT_BIN=$(CURDIR)/$(BIN)/kamino-node $(GO) test -tags machines -count=1 -timeout 30m -run 'TestTools|TestScale' -v ./machine/real

# Minimization of interesting inputs would block a fuzz target for up to a minute each time.
FUZZTIME ?= 2m
.PHONY: fuzz
fuzz: ## Run every fuzz target of the product for FUZZTIME (2m) each.
	@grep -rHoE --include="*_test.go" '^func Fuzz[A-Za-z]+' internal | sed 's|/[^/]*_test.go:func | |' | while read -r dir target; do \
		$(GO) test -run xxx -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 10x "./$$dir" </dev/null; \
	done

.PHONY: race
race: assets ## Run the product's tests under the race detector (needs a C compiler).
	@CGO_ENABLED=1 KUBEBUILDER_ASSETS=$(CURDIR)/$(BIN)/assets $(GO) test -race -timeout 60m ./...

# etcd, kube-apiserver and kubectl under the names that envtest expects. All are links to one binary.
.PHONY: assets
assets: $(BIN)/kamino-sandbox
	@$(BIN)/kamino-sandbox assets $(BIN)/assets >/dev/null

.PHONY: lint
lint: $(GOLANGCI_LINT) $(BIN)/.modules ## Run the linters, the import rules and the limits of figures on both modules.
	@$(GO) test -run 'Walls|Pure' ./cmd/kamino
	@$(GO) run ./hack/figures -check
	@hack/lint.sh $(CURDIR)/$(GOLANGCI_LINT) .
	@hack/lint.sh $(CURDIR)/$(GOLANGCI_LINT) sandbox

# FIGURES=-write lowers the limits to the values of today, and FIGURES="-write -raise NAME" raises the limit of one figure.
FIGURES ?=
.PHONY: figures
figures: ## Measure the structure of the code: each figure with its limit and its worst place.
	@$(GO) run ./hack/figures $(FIGURES)

.PHONY: generate
generate: $(BIN)/controller-gen $(BIN)/.modules ## Generate the deep copies, the CustomResourceDefinitions, the generated files of the chart, and pages.
	@$(BIN)/controller-gen object paths=./api/... crd output:crd:artifacts:config=api/crds
	@$(GO) run ./charts/generate
	@$(GO) generate ./docs >/dev/null

.PHONY: verify
verify: generate ## Generate, then fail if the tree differs from the commit.
	@hack/verify-clean.sh

# Additional flags: BENCH="--only scale --profiles DIRECTORY" measures only the controller and keeps profiles.
BENCH ?=
.PHONY: bench
bench: build ## Measure captures, the controller with 15,000 nodes, both methods, commands over all pools, disks and joins (45 minutes).
	@cd sandbox && $(GO) build -ldflags '$(SANDBOX_LDFLAGS)' -o ../$(BIN)/kamino-bench ./cmd/kamino-bench
	@$(GO) test -vet=off -run xxx -bench JoinHealth ./internal/policy/week
	@$(BIN)/kamino-bench --kamino $(BIN)/kamino --sandbox $(BIN)/kamino-sandbox $(if $(BENCH),$(BENCH),--page docs/contribute/benchmarks.md)

# VERIFY is another command of the program, or flags: make verify-cloud CLOUD=aws VERIFY=clean. A run costs money, so that the cloud of
# the demos is no default here: the program asks for one.
VERIFY ?= run
.PHONY: verify-cloud
verify-cloud: ## Try on your own account what Kamino only assumes, and remove everything again: CLOUD=aws or azure (VERIFY="run --limit 1", clean, price, dry-run).
	@cd sandbox && $(GO) build -ldflags '-X github.com/kamino-dev/kamino/internal/build.Version=$(VERSION)' -o ../$(BIN)/verify-cloud ./cmd/verify-cloud
	@$(BIN)/verify-cloud $(firstword $(VERIFY)) --cloud "$(if $(filter file,$(origin CLOUD)),,$(CLOUD))" $(wordlist 2,99,$(VERIFY))

RELEASE_TOOLS := $(BIN)/release-tools
# Each of four platforms compiles all packages once. goreleaser's default limit of one hour is too short for two cores.
GORELEASER := PATH="$(CURDIR)/$(RELEASE_TOOLS):$$PATH" goreleaser release --clean --parallelism 1 --timeout 4h

release-snapshot release: export GOGC = 400
release-snapshot release: export GOMEMLIMIT = 4GiB

.PHONY: release-tools
release-tools: $(RELEASE_TOOLS)/goreleaser $(RELEASE_TOOLS)/cyclonedx-gomod $(RELEASE_TOOLS)/helm ## Build goreleaser, cyclonedx-gomod and Helm.

.PHONY: release-snapshot
release-snapshot: release-tools ## Build the release files into dist, without image and signatures (many minutes).
	@$(GORELEASER) --snapshot --skip=sign

.PHONY: test-release
test-release: assets ## Test the files of release-snapshot: checksums, kubectl plugin, completion, SBOM, chart.
	@KUBEBUILDER_ASSETS=$(CURDIR)/$(BIN)/assets $(GO) test -tags release -vet=off -count=1 ./hack/release

# Only the workflow of a tag runs release and release-image, which need a registry and an identity for signatures. The last
# two lines of release-image are the images with digest.
.PHONY: release
release: release-tools
	@$(GORELEASER)

.PHONY: release-image
release-image: $(RELEASE_TOOLS)/ko
	@$(RELEASE_TOOLS)/ko build --base-import-paths --platform linux/amd64,linux/arm64 --tags "$(VERSION)" ./cmd/kamino ./cmd/kamino-node

# The site renders the same Markdown as GitHub. The test follows each link of the built site.
HUGO_VERSION := $(shell sed -n 's|^.*gohugoio/hugo v\([0-9][0-9.]*\).*|\1|p' tools/hugo/go.mod | head -n 1)
HUGO := $(BIN)/hugo-$(HUGO_VERSION)
.PHONY: docs-site
docs-site: $(HUGO) ## Build the pages as a site into bin/site, and check the links of the site.
	@rm -rf $(BIN)/site
	@$(HUGO) --source tools/site --destination $(CURDIR)/$(BIN)/site --noBuildLock >/dev/null
	@KAMINO_SITE=$(CURDIR)/$(BIN)/site $(GO) test -vet=off -count=1 -run 'TestSite$$' ./hack/docs

.PHONY: docs-serve
docs-serve: $(HUGO) ## Show the pages as a site on http://localhost:1313, and follow changes.
	@$(HUGO) server --source tools/site --renderToMemory --noBuildLock

# Hugo's edition without C. Later versions need Go 1.27.
$(HUGO): tools/hugo/go.mod tools/hugo/go.sum
	@mkdir -p $(BIN)
	@echo "building Hugo $(HUGO_VERSION) (about two minutes, once)"
	@cd tools/hugo && ../../hack/retry.sh $(GO) build -ldflags '-s -w' -o ../../$(HUGO) github.com/gohugoio/hugo

.PHONY: vuln
vuln: $(BIN)/govulncheck $(BIN)/.modules ## Check the code that the binaries call for known vulnerabilities.
	@hack/vuln.sh $(CURDIR)/$(BIN)/govulncheck

.PHONY: clean
clean: ## Delete bin and dist (the Go build cache stays).
	@rm -rf $(BIN) dist

# Go detects changes better than make, so make always runs go build for both binaries.
.PHONY: FORCE
FORCE:

# With the default GOGC of 100, the compiler spends a quarter of the processor time on garbage collection. The limit keeps
# the largest package (the SDK of EC2, 3.5 GiB) near the usual memory use.
$(BIN)/kamino $(BIN)/kamino-sandbox: export GOGC = 400
$(BIN)/kamino $(BIN)/kamino-sandbox: export GOMEMLIMIT = 4GiB

$(BIN)/kamino: FORCE $(BIN)/.modules
	@$(BUILD_KAMINO)

$(BIN)/kamino-sandbox: FORCE $(BIN)/.modules
	@cd sandbox && ../hack/build-progress.sh ../$(BIN)/kamino-sandbox -- $(BUILD_SANDBOX)

# Binaries of real nodes, and the binary in the containers of real nodes.
$(BIN)/nodes: FORCE $(BIN)/.modules
	@mkdir -p $@
	@cd sandbox && $(GO) build -ldflags '$(SANDBOX_LDFLAGS)' -o ../$@/ k8s.io/kubernetes/cmd/kubelet k8s.io/kubernetes/cmd/kubeadm ./machine/real/container

# A transfer from the module proxy can fail. Go keeps the downloaded modules, so a retry continues.
$(BIN)/.modules: go.mod go.sum sandbox/go.mod sandbox/go.sum
	@mkdir -p $(BIN)
	@hack/retry.sh $(GO) mod download
	@cd sandbox && ../hack/retry.sh $(GO) mod download
	@touch $@

$(BIN)/controller-gen $(BIN)/gotestsum: tools/go.mod tools/go.sum
	@mkdir -p $(BIN)
	@cd tools && ../hack/retry.sh $(GO) mod download && $(GO) build -o ../$@ $$($(GO) list -f '{{.ImportPath}}' tool | grep '/$(@F)$$')

# goreleaser has many modules. The build downloads only the modules that the program needs.
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

$(CONTAINERD): tools/containerd/build.sh tools/containerd/go.mod tools/containerd/go.sum
$(CLUSTERAPI): tools/clusterapi/build.sh tools/clusterapi/go.mod tools/clusterapi/go.sum
$(CLUSTERAPI_AWS): tools/clusterapi-aws/build.sh tools/clusterapi-aws/go.mod tools/clusterapi-aws/go.sum
$(KARPENTER): tools/karpenter-aws/build.sh tools/karpenter-aws/go.mod tools/karpenter-aws/go.sum
$(CONTAINERD) $(CLUSTERAPI) $(CLUSTERAPI_AWS) $(KARPENTER):
	@GO="$(GO)" $< $@

# The file name contains the version, so that the cache of another checkout never provides an older linter.
$(GOLANGCI_LINT): tools/lint/go.mod tools/lint/go.sum
	@mkdir -p $(BIN)
	@echo "building golangci-lint $(LINT_VERSION) (about two minutes, once)"
	@cd tools/lint && ../../hack/retry.sh $(GO) mod download && $(GO) build -o ../../$(GOLANGCI_LINT) github.com/golangci/golangci-lint/v2/cmd/golangci-lint
