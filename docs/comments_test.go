package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// plainComments are the packages with comments held to the limits below. Each rewritten package joins the list.
var plainComments = strings.Fields(`
	api/crds api/v1alpha1 cmd/kamino internal/admission internal/apitest internal/apitest/inmemory internal/bootstrapkind
	internal/build internal/capture internal/capture/plan internal/cli internal/cli/clouds internal/cli/help internal/cli/settings internal/cli/print
	internal/cloud internal/cloud/aws internal/cloud/azure internal/cloud/capi internal/cloud/cloudtest internal/cloud/memory
	internal/cloud/registry internal/cluster internal/controller/nodelabel internal/controller/policy internal/controller/prototype
	internal/controller/sweep internal/definition internal/doctor internal/drive internal/drive/drivetest
	internal/history/estimate internal/selection/expression internal/generalize internal/generalize/disk internal/generalize/host
	internal/generalize/scan internal/generalize/store internal/generalize/tree internal/history internal/imagecount
	internal/imageversion internal/joinhealth internal/node/kured internal/manifest internal/membership internal/metrics internal/node
	internal/nodecache internal/nodejoin internal/nodestate internal/policy internal/policy/policyfile internal/pool internal/probe
	internal/process internal/rebuild internal/rebuild/plan internal/recipe internal/reservations
	internal/retention internal/policy/schedule internal/selection
	internal/trial internal/tryout internal/wording sandbox/assertion sandbox/authority sandbox/aws sandbox/azure
	sandbox/bench sandbox/bucket sandbox/capi sandbox/chart sandbox/cli sandbox/clock sandbox/cmd/kamino-bench
	sandbox/cmd/kamino-sandbox sandbox/conformance sandbox/control sandbox/controlplane sandbox/controlplane/quiet sandbox/demo
	sandbox/fault sandbox/fleet sandbox/machine sandbox/machine/bootconfig sandbox/machine/disk sandbox/machine/kubeadm
	sandbox/machine/kubelet sandbox/machine/nodeadm sandbox/machine/real sandbox/machine/real/container sandbox/machine/systemd sandbox/pool sandbox/query
	sandbox/region sandbox/requestlog sandbox/sandboxdir sandbox/sandboxtest sandbox/sigv4 sandbox/socket sandbox/store
	sandbox/unverified sandbox/web sandbox/workload sandbox/workqueue sandbox/world`)

// paragraph is a paragraph of a comment outside code.
type paragraph struct {
	at   token.Pos
	text string
}

// paragraphs returns the prose of a file's comments, without directives, markers, literals in backquotes and indented code.
func paragraphs(file *ast.File) (all []paragraph) {
	literal, marker := regexp.MustCompile("`[^`]*`"), regexp.MustCompile(`(?m)^\+.*\n`) // controller-gen reads markers
	add := func(at token.Pos, text string) {
		if text = literal.ReplaceAllString(text, "CODE"); text != "" {
			all = append(all, paragraph{at, text})
		}
	}
	for _, group := range file.Comments {
		for text := range strings.SplitSeq(marker.ReplaceAllString(group.Text(), ""), "\n\n") {
			if !strings.HasPrefix(text, "\t") {
				add(group.Pos(), strings.Join(strings.Fields(text), " "))
			}
		}
		for _, c := range group.List {
			if _, reason, found := strings.Cut(strings.TrimPrefix(c.Text, "//"), " // "); found && strings.HasPrefix(c.Text, "//nolint") {
				add(c.Pos(), reason)
			}
		}
	}
	return all
}

// exportedNames are the identifiers of a file that begin with a capital. A comment may name them.
func exportedNames(file *ast.File) map[string]bool {
	names := map[string]bool{}
	ast.Inspect(file, func(n ast.Node) bool {
		if name, is := n.(*ast.Ident); is && name.IsExported() {
			names[name.Name] = true
		}
		return true
	})
	return names
}

// withoutNames replaces each name that is also a banned word. A comment may name what the file declares.
func withoutNames(text string, names map[string]bool) string {
	return banned.ReplaceAllStringFunc(text, func(word string) string {
		if names[word] {
			return "NAME"
		}
		return word
	})
}

// TestCommentsArePlain holds comments to short sentences with nouns.
func TestCommentsArePlain(t *testing.T) {
	for _, dir := range plainComments {
		paths, err := filepath.Glob("../" + dir + "/*.go")
		if err != nil || len(paths) == 0 {
			t.Fatalf("%s has no files (%v)", dir, err)
		}
		var total figures
		for _, path := range paths {
			if strings.HasSuffix(path, "_test.go") {
				continue
			}
			set := token.NewFileSet()
			file, err := parser.ParseFile(set, path, nil, parser.ParseComments|parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			names := exportedNames(file)
			for _, p := range paragraphs(file) {
				total.hold(t, set.Position(p.at).String(), withoutNames(p.text, names))
			}
		}
		total.check(t, dir)
	}
}

// TestCommentsAreRead: what the limits see of a file.
func TestCommentsAreRead(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "x.go", "// Package x is\n// short. Told is `told`.\n//\n//\tcode that is told\n//\n// More.\npackage x\n\n"+
		"//go:generate that\n// +marker:of=\"that\"\nvar Told = 1 //nolint:gosec // a reason\n\nvar b = 2 // behind code\n", parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, p := range paragraphs(file) {
		got = append(got, p.text)
	}
	if want := []string{"Package x is short. Told is CODE.", "More.", "a reason", "behind code"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	names := exportedNames(file)
	for text, want := range map[string]string{got[0]: "", "It was told.": "was told", "Told by the cloud": "", "Nobody knows": "Nobody", "a nobodyish word": ""} {
		if have := banned.FindString(withoutNames(text, names)); have != want {
			t.Errorf("%q: %q is banned, want %q", text, have, want)
		}
	}
}
