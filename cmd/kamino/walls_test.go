package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// room lists the allowed direct imports of a package. Other imports fail.
type room struct {
	// pure packages map values to values: no clock, no context, no file, no network, no log.
	pure bool
	// own packages of the project, without "internal/". "*" means all.
	own string
	// foreign packages, as prefixes of import paths. "*" means all packages that no other room owns.
	foreign string
}

// Families of foreign packages.
const (
	kubeTypes  = " k8s.io/api k8s.io/apimachinery"
	kubeClient = kubeTypes + " k8s.io/client-go github.com/go-logr/logr"
	kubeLoop   = kubeClient + " sigs.k8s.io/controller-runtime"
	yaml       = " sigs.k8s.io/yaml"
	unix       = " golang.org/x/sys/unix"
)

// rooms is the only table of allowed imports: docs/contribute/architecture.md has the reasons, and a test compares the
// linter's list of packages without a clock. A package without an entry fails.
var rooms = map[string]room{
	"api/v1alpha1": {foreign: kubeTypes},
	"api/crds":     {},

	"internal/node/nodestate":       {pure: true, foreign: kubeTypes},
	"internal/cloud/imageversion":   {pure: true},
	"internal/policy/schedule":      {pure: true, own: "api wording", foreign: kubeTypes + " github.com/robfig/cron"},
	"internal/selection/expression": {pure: true, foreign: kubeTypes + " github.com/google/cel-go"},
	"internal/history/retention":    {pure: true, own: "cloud cloud/imageversion"},
	"internal/selection":            {pure: true, own: "api cloud node/nodestate", foreign: kubeTypes},
	"internal/history":              {pure: true, own: "api cloud cloud/imageversion joinhealth wording/page history/retention wording"},
	"internal/history/imagecount":   {pure: true, own: "cloud cloud/imageversion"},
	"internal/joinhealth":           {pure: true, own: "cloud wording"},
	"internal/attention":            {pure: true, own: "api cloud history history/imagecount joinhealth node/reservations wording", foreign: kubeTypes},
	"internal/trial":                {pure: true, own: "api cloud node/nodestate", foreign: kubeTypes},
	"internal/history/estimate":     {pure: true, own: "api"},
	"internal/dashboard":            {pure: true, own: "api attention cloud history joinhealth history/report history/timeline wording", foreign: kubeTypes},
	"internal/notify":               {pure: true, own: "api attention", foreign: kubeTypes},
	"internal/history/timeline":     {pure: true, own: "api history wording", foreign: kubeTypes},
	"internal/node/reservations":    {pure: true, own: "api cloud node/nodestate", foreign: kubeTypes},
	"internal/wording":              {pure: true},
	"internal/scrub":                {},
	"internal/wording/page":         {pure: true},
	"internal/capture/admission":    {pure: true, own: "api cloud history history/imagecount cloud/imageversion selection", foreign: kubeTypes},
	"internal/step":                 {pure: true},
	"internal/capture/plan":         {pure: true, own: "step"},
	"internal/pool/bootstrapkind":   {pure: true, own: "api cloud cloud/imageversion", foreign: kubeTypes},
	"internal/pool/capturemethod":   {pure: true, own: "api"},
	"internal/policy/policyfile":    {pure: true, own: "api", foreign: kubeTypes + yaml + " sigs.k8s.io/json"},

	"internal/patch":        {pure: true, own: "api"},
	"internal/patch/plan":   {pure: true, own: "patch step"},
	"internal/rebuild/plan": {pure: true, own: "api cloud step wording"},
	"internal/recipe":       {own: "api cloud cluster history cloud/imageversion step", foreign: kubeClient},

	"internal/patch/nodepatch": {own: "api node node/nodestate patch patch/plan", foreign: kubeLoop},

	"internal/cloud":             {foreign: "sigs.k8s.io/yaml"},
	"internal/cloud/aws":         {own: "cloud cloud/imageversion wording/page", foreign: "github.com/aws/aws-sdk-go-v2 github.com/aws/smithy-go"},
	"internal/cloud/azure":       {own: "cloud cloud/imageversion process wording/page", foreign: "github.com/Azure/azure-sdk-for-go"},
	"internal/cloud/apiserver":   {own: "cloud", foreign: kubeClient},
	"internal/cloud/capi":        {own: "cloud cloud/apiserver process wording/page", foreign: kubeClient},
	"internal/cloud/karpenter":   {own: "cloud cloud/apiserver", foreign: kubeClient},
	"internal/testing/memory":    {own: "cloud cloud/imageversion"},
	"internal/testing/plantest":  {own: "step"},
	"internal/cloud/registry":    {own: "cloud cloud/aws cloud/azure"},
	"internal/testing/cloudtest": {own: "cloud cloud/imageversion", foreign: "github.com/google/go-cmp"},

	"internal/agent/tree":      {foreign: unix},
	"internal/agent/store":     {own: "agent/tree rules wording", foreign: "github.com/klauspost/compress go.etcd.io/bbolt"},
	"internal/contents":        {pure: true, own: "api cloud"},
	"internal/history/report":  {pure: true, own: "api cloud/imageversion wording", foreign: kubeTypes},
	"internal/contents/sbom":   {own: "contents", foreign: "github.com/CycloneDX/cyclonedx-go github.com/package-url/packageurl-go"},
	"internal/agent/dpkgdb":    {},
	"internal/agent/rpmdb":     {},
	"internal/agent/inventory": {own: "contents agent/dpkgdb agent/rpmdb agent/tree"},
	"internal/agent/scan": {own: "agent/rpmdb",
		foreign: unix + " github.com/klauspost/compress github.com/pelletier/go-toml github.com/ulikunitz/xz github.com/zricethezav/gitleaks"},
	"internal/agent/generalize": {own: "api contents agent/inventory agent/scan agent/store agent/tree patch rules", foreign: kubeTypes + yaml},
	"internal/rules":            {own: "api", foreign: yaml},
	"internal/agent/generalize/host": {
		own:     "api agent/generalize agent/tree agent/patch/disk rules",
		foreign: kubeClient + unix + " github.com/coreos/go-systemd github.com/godbus/dbus",
	},

	"internal/agent/audit":   {own: "agent/dpkgdb agent/rpmdb agent/store agent/tree"},
	"internal/agent/offline": {own: "api agent/audit agent/generalize agent/generalize/host agent/quiesce agent/scan agent/tree cloud", foreign: unix},

	"internal/agent/generalize/disk": {own: "api agent/generalize agent/generalize/host agent/offline agent/scan agent/tree process rules", foreign: kubeTypes + yaml},

	"internal/agent/patch/apt":  {own: "agent/dpkgdb patch"},
	"internal/agent/patch/dnf":  {own: "patch"},
	"internal/agent/patch/disk": {own: "agent/rpmdb agent/tree patch agent/patch/apt"},
	"internal/agent/patch/host": {
		own:     "api agent/generalize/host agent/tree patch agent/patch/apt agent/patch/dnf",
		foreign: kubeTypes + " github.com/coreos/go-systemd github.com/godbus/dbus",
	},
	"internal/agent/quiesce": {
		own:     "agent/generalize/host agent/patch/apt agent/store agent/tree rules",
		foreign: unix + " github.com/coreos/go-systemd github.com/godbus/dbus",
	},
	"internal/dashboard/web/page":   {own: "dashboard wording"},
	"internal/dashboard/web/gather": {own: "attention cloud dashboard history pool history/report"},
	"internal/dashboard/web":        {own: "dashboard dashboard/web/page", foreign: "github.com/go-logr/logr"},
	"internal/notify/delivery":      {own: "notify", foreign: "github.com/go-logr/logr"},

	"internal/pool": {own: "api attention cloud cluster contents history history/imagecount cloud/imageversion joinhealth pool/membership " +
		"pool/nodejoin node/nodestate history/report history/timeline", foreign: kubeClient},
	"internal/build":              {},
	"internal/process":            {},
	"internal/trial/probe":        {},
	"internal/cluster/definition": {own: "api cluster manifest", foreign: kubeLoop},

	"internal/pool/membership": {own: "api pool/bootstrapkind cloud node wording/page", foreign: kubeClient},
	"internal/node/kured":      {foreign: kubeClient},

	"internal/pool/nodecache": {own: "api cloud pool/membership node/nodestate", foreign: kubeLoop},

	"internal/node":            {own: "api node/nodestate", foreign: kubeClient + " k8s.io/component-helpers k8s.io/kubectl"},
	"internal/capture":         {own: "capture/admission api capture/plan cloud contents history history/imagecount cloud/imageversion joinhealth pool/membership node node/kured node/nodestate patch/nodepatch patch/plan process recipe node/reservations history/retention selection trial wording wording/page", foreign: kubeLoop},
	"internal/trial/trialnode": {own: "api cloud node node/nodestate trial/probe selection/expression trial", foreign: kubeClient + yaml + " k8s.io/component-helpers k8s.io/pod-security-admission"},
	"internal/rebuild":         {own: "api cloud pool/membership node node/kured pool/nodecache node/nodestate rebuild/plan step", foreign: kubeLoop},
	"internal/doctor":          {own: "attention capture/admission api pool/bootstrapkind pool/capturemethod cloud history history/imagecount cloud/imageversion pool/membership node node/kured node/nodestate wording/page node/reservations scrub selection wording", foreign: kubeLoop + yaml},
	"internal/manifest":        {own: "api", foreign: kubeTypes + yaml},
	"internal/pool/nodejoin":   {own: "api cloud history cloud/imageversion joinhealth node/nodestate trial", foreign: kubeClient},
	"internal/metrics":         {own: "capture/admission api pool/bootstrapkind capture capture/plan cloud history history/imagecount cloud/imageversion joinhealth pool/membership notify/delivery patch policy selection trial", foreign: kubeClient + " github.com/prometheus/client_golang"},
	"internal/policy":          {own: "attention capture/admission api pool/bootstrapkind pool/capturemethod capture cloud history history/estimate history/imagecount cloud/imageversion joinhealth pool/membership pool/nodecache pool/nodejoin node/nodestate patch patch/nodepatch patch/plan policy/schedule process rebuild recipe node/reservations selection selection/expression wording", foreign: kubeLoop},

	"internal/controller/nodelabel": {own: "api cloud pool/membership node node/nodestate process", foreign: kubeClient},
	"internal/controller/policy":    {own: "api pool/nodecache policy", foreign: kubeLoop},
	"internal/controller/prototype": {own: "api capture node/nodestate", foreign: kubeLoop},
	"internal/controller/sweep":     {own: "api capture cloud node/reservations", foreign: kubeLoop},

	"internal/cluster": {own: "api cloud wording", foreign: kubeLoop},
	"internal/runner": {
		own: "attention capture/admission api pool/bootstrapkind pool/capturemethod capture cloud cluster controller/nodelabel controller/policy controller/prototype " +
			"controller/sweep notify/delivery rules history/imagecount cloud/imageversion pool/membership metrics node pool/nodecache " +
			"pool/nodejoin node/nodestate notify patch/nodepatch policy policy/policyfile pool process rebuild rebuild/plan node/reservations " +
			"selection trial/trialnode dashboard/web dashboard/web/gather wording",
		foreign: kubeLoop,
	},

	"internal/cli/clouds": {own: "cloud cloud/capi cloud/karpenter cloud/registry cluster wording", foreign: kubeClient + " github.com/spf13/pflag"},
	"internal/cli/print": {own: "attention capture/admission api cli/output dashboard/web pool/bootstrapkind pool/capturemethod build cloud cluster contents doctor history " +
		"history/estimate history/imagecount joinhealth wording/page pool history/report node/reservations history/retention selection history/timeline wording",
		foreign: kubeTypes + yaml},
	"internal/cli/help":     {own: "cli/output", foreign: "github.com/spf13/cobra github.com/spf13/pflag"},
	"internal/cli/exit":     {},
	"internal/cli/explain":  {own: "cli/exit cloud cluster wording/page", foreign: kubeTypes},
	"internal/cli/known":    {own: "api attention cli/explain cli/print cluster runner"},
	"internal/cli/fleet":    {own: "cli/exit", foreign: "github.com/spf13/pflag"},
	"internal/cli/logging":  {foreign: kubeLoop + " k8s.io/klog"},
	"internal/cli/user":     {foreign: "k8s.io/client-go github.com/spf13/pflag"},
	"internal/cli/settings": {own: "api policy/policyfile", foreign: kubeTypes + yaml + " sigs.k8s.io/json"},
	"internal/cli":          {own: "*", foreign: "*"},
	"cmd/kamino":            {own: "*", foreign: "*"},

	"internal/cli/output": {own: "cli/exit wording", foreign: yaml + " github.com/spf13/cobra"},
	"internal/agent": {own: "api agent/generalize agent/generalize/disk agent/generalize/host agent/offline agent/scan agent/tree agent/patch/disk agent/patch/host agent/quiesce build " +
		"cli/exit cli/help cli/output process rules trial/probe", foreign: kubeTypes + " github.com/spf13/cobra github.com/spf13/pflag"},
	"cmd/kamino-node": {own: "agent"},

	// For tests alone; TestBinaryDependencies keeps them out of the binary.
	"internal/testing/apitest":          {own: "api", foreign: "*"},
	"internal/testing/apitest/inmemory": {own: "api", foreign: kubeLoop},
	"internal/policy/week":              {own: "*", foreign: "*"},
	"internal/testing/example":          {own: "api cloud dashboard history joinhealth history/report", foreign: kubeTypes},
}

// kept are packages for one room only, with the reason: "*" does not include these packages.
var kept = map[string]string{
	"github.com/google/cel-go":                              "expressions are compiled and evaluated in package expression",
	"github.com/robfig/cron":                                "schedules are read in package schedule",
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager": "only the provider speaks to its cloud",
	"go.etcd.io/bbolt":                                      "a container runtime's database is read in package store",
	"github.com/zricethezav/gitleaks":                       "rules of secrets are read in package scan",
}

// impure are packages of the standard library that no pure package imports.
var impure = []string{"context", "log", "net", "os", "syscall", "runtime", "testing"}

// imported is a package of the project with its direct imports, without tests.
type imported struct {
	ImportPath string
	Imports    []string
}

// packages are all packages of the product.
func packages(t *testing.T) []imported {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-json=ImportPath,Imports", module+"internal/...", module+"api/...", module+"cmd/...").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var all []imported
	for dec := json.NewDecoder(strings.NewReader(string(out))); dec.More(); {
		var p imported
		if err := dec.Decode(&p); err != nil {
			t.Fatal(err)
		}
		p.ImportPath = strings.TrimPrefix(p.ImportPath, module)
		if p.ImportPath != "internal/tmpdeps" {
			all = append(all, p)
		}
	}
	return all
}

// breach is the reason why a package of the room must not import another package; empty if allowed.
func (r room) breach(path string) string {
	if own, isOwn := strings.CutPrefix(path, module); isOwn {
		short := strings.TrimPrefix(own, "internal/")
		if under(short, "agent") && r.own == "*" {
			return "only kamino-node has the code that runs on nodes"
		}
		if r.own == "*" || slices.Contains(strings.Fields(r.own), short) || strings.HasPrefix(own, "api/") && slices.Contains(strings.Fields(r.own), "api") {
			return ""
		}
		return "the room is not open to it"
	}
	if first, _, _ := strings.Cut(path, "/"); !strings.Contains(first, ".") {
		if r.pure && slices.ContainsFunc(impure, func(i string) bool { return under(path, i) }) {
			return "a pure package touches nothing"
		}
		return ""
	}
	if slices.ContainsFunc(strings.Fields(r.foreign), func(f string) bool { return under(path, f) }) {
		return ""
	}
	for prefix, why := range kept {
		if under(path, prefix) {
			return why
		}
	}
	if r.foreign == "*" {
		return ""
	}
	return "it is not among the room's libraries"
}

func TestWalls(t *testing.T) {
	all := packages(t)
	for _, p := range all {
		r, known := rooms[p.ImportPath]
		if !known {
			t.Errorf("package %s is not in the list of packages: add the allowed imports", p.ImportPath)
			continue
		}
		for _, path := range p.Imports {
			if why := r.breach(path); why != "" {
				t.Errorf("%s imports %s: %s", p.ImportPath, path, why)
			}
		}
	}
	for name := range rooms {
		if !slices.ContainsFunc(all, func(p imported) bool { return p.ImportPath == name }) {
			t.Errorf("there is no package %s", name)
		}
	}
}

// A pure package may import only pure packages: values of the cloud and of the API are no I/O.
func TestPureBuildsOnPure(t *testing.T) {
	for name, r := range rooms {
		for own := range strings.FieldsSeq(r.own) {
			if r.pure && own != "api" && own != "cloud" && !rooms["internal/"+own].pure {
				t.Errorf("%s is pure, and internal/%s is not", name, own)
			}
		}
	}
}

func TestABreachIsFound(t *testing.T) {
	for _, test := range []struct {
		from, path string
		breach     bool
	}{
		{"internal/selection", module + "internal/cloud", false},
		{"internal/selection", module + "internal/cloud/azure", true},
		{"internal/selection", module + "api/v1alpha1", false},
		{"internal/selection", "time", false},
		{"internal/selection", "os", true},
		{"internal/selection", "net/http", true},
		{"internal/selection", "k8s.io/client-go/kubernetes", true},
		{"internal/cloud", "k8s.io/api/core/v1", true},
		{"internal/cli", module + "internal/agent/generalize", true},
		{"internal/capture", module + "internal/metrics", true},
		{"internal/capture", "github.com/prometheus/client_golang/prometheus", true},
		{"internal/cli", "github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v6", true},
		{"internal/cli", "github.com/robfig/cron/v3", true},
		{"internal/cli", module + "internal/cloud/azure", false},
		{"internal/policy/schedule", "github.com/robfig/cron/v3", false},
	} {
		if why := rooms[test.from].breach(test.path); (why != "") != test.breach {
			t.Errorf("%s imports %s: breach %q, want one: %t", test.from, test.path, why, test.breach)
		}
	}
}

// The linter's list of packages without a clock equals this table's list of pure packages.
func TestTheLinterKnowsThePurePackages(t *testing.T) {
	config, err := os.ReadFile("../../.golangci.yml")
	if err != nil {
		t.Fatal(err)
	}
	listed := regexp.MustCompile(`path-except: internal/\(([^)]*)\)/`).FindSubmatch(config)
	if listed == nil {
		t.Fatal("the linter's configuration names no packages without a clock")
	}
	var want []string
	for name, r := range rooms {
		if r.pure {
			want = append(want, strings.TrimPrefix(name, "internal/"))
		}
	}
	got := strings.Split(string(listed[1]), "|")
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("the linter forbids the clock in %v; pure packages are %v", got, want)
	}
}
