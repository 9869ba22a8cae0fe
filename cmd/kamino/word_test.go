package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// ofOneCloud are words of a single cloud, in code and output. Comments may contain such words as sources of facts, and
// profiles may, because a profile describes the leftovers of clouds and distributions.
var ofOneCloud = regexp.MustCompile(`(?i)azure|\barm_|vmss|scale ?sets?\b|galler(y|ies)|subscription|resource ?groups?\b|virtual ?machine`)

// spoken lists allowed words of a single cloud outside its provider, with the reason. An unused entry fails.
var spoken = map[string]string{
	"internal/cloud/registry/registry.go":          "it lists the providers",
	"api/v1alpha1/cloud.go":                        "the settings of one cloud are below its name",
	"api/v1alpha1/settings_types.go":               "the settings of one cloud are below its name",
	"internal/cloud/capi/infrastructure_azure.go":  "the kinds of one cloud's infrastructure provider",
	"internal/cloud/capi/capi.go":                  "it names the kinds of clusters that are known",
	"internal/cloud/capi/machinepool_azure.go":     "the same for its machine pools",
	"internal/cloud/capi/machinepool.go":           "it names the kinds of pools that are known",
	"internal/cloud/capi/reason.go":                "the same, with the field of the image",
	"internal/cloud/capi/infrastructure.go":        "it lists the infrastructures",
	"internal/cloud/capi/member.go":                "IDs of one cloud ignore case",
	"internal/pool/bootstrapkind/bootstrapkind.go": "labels of a distribution, as it writes them",
	"internal/patch/system.go":                     "the name of a distribution",
}

// TestWordsOfOneCloudStayInItsProvider limits code above the providers to words of all clouds: words of a single cloud belong to its
// description.
func TestWordsOfOneCloudStayInItsProvider(t *testing.T) {
	found, looked := map[string][]string{}, 0
	see := func(path, text string) {
		looked++
		for _, word := range ofOneCloud.FindAllString(text, -1) {
			if !slices.Contains(found[path], word) {
				found[path] = append(found[path], word)
			}
		}
	}
	for _, tree := range []string{"api/v1alpha1", "internal", "cmd"} {
		err := filepath.WalkDir("../../"+tree, func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			name := filepath.ToSlash(strings.TrimPrefix(path, "../../"))
			switch {
			case d.IsDir() && (name == "internal/cloud/azure" || d.Name() == "testdata"):
				return filepath.SkipDir
			case d.IsDir() || strings.HasSuffix(name, "_test.go") || strings.HasPrefix(d.Name(), "zz_generated"):
			case strings.HasSuffix(name, ".go"):
				seeGo(t, path, func(text string) { see(name, text) })
			case strings.HasPrefix(name, "internal/manifest/files/"):
				seeYAML(t, path, func(text string) { see(name, text) })
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if looked < 10000 {
		t.Fatalf("only %d texts were checked", looked)
	}
	for path, words := range found {
		if spoken[path] == "" {
			t.Errorf("%s has words of one cloud, %s: move the words into the description of the provider", path, strings.Join(words, ", "))
		}
	}
	for path, why := range spoken {
		if found[path] == nil {
			t.Errorf("%s (%s) has no word of one cloud any more: remove the entry from the list", path, why)
		}
	}
}

// seeGo shows a file's names and strings.
func seeGo(t *testing.T, path string, see func(string)) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.Ident:
			see(n.Name)
		case *ast.BasicLit:
			if n.Kind == token.STRING {
				see(n.Value)
			}
		}
		return true
	})
}

// seeYAML shows a manifest's lines without their comments.
func seeYAML(t *testing.T, path string, see func(string)) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		code, _, _ := strings.Cut(line, "#")
		see(code)
	}
}

// The words are found as they are written in code, and in no others.
func TestACloudsWordsAreKnown(t *testing.T) {
	for text, want := range map[string]bool{
		"AzureSettings": true, "kubernetes.io/azure-disk/": true, "CheckGallery": true, "galleries": true, "arm_requests": true, "k8s-vmss000003": true,
		"a scale set": true, "ScaleSet": true, "the resource group": true, "ResourceGroups": true, "virtualMachines": true, "subscription": true,
		"alarm_x": false, "scale settings": false, "harm": false, "a pool": false, "the resource grouped": false, "machine": false,
	} {
		if got := ofOneCloud.MatchString(text); got != want {
			t.Errorf("%q: found %t, want %t", text, got, want)
		}
	}
}
