package sandboxtest

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

// persons are the tests in which kamino belongs to a person who administers the cluster.
var persons = map[string]string{
	"chart":      "the chart makes the accounts, and the package tests each",
	"command":    "kamino-sandbox's verbs, and doctor of accounts with few rights",
	"demo":       "starts demos, which say whose credential they use",
	"quickstart": "the pages begin before Kamino has an account",
}

// administrators are names that give a program of a test the rights of the administrator.
var administrators = []string{"AsPerson", "Env", "Environment", "Kamino", "Programs"}

// TestLongPackagesRunWithTheRightsOfUsers: kamino starts only by the framework, which gives it the accounts of `kamino manifests`.
// Main checks the logs of each package for an administrator, but only in the long suite.
func TestLongPackagesRunWithTheRightsOfUsers(t *testing.T) {
	files, err := filepath.Glob("../e2e/*/*_test.go")
	if err != nil || len(files) < 50 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, file := range files {
		if dir := filepath.Base(filepath.Dir(file)); persons[dir] != "" {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range administratorIn(parsed) {
			if worldMakers[filepath.Base(filepath.Dir(file))+" "+found] == "" {
				t.Errorf("%s uses %s: start kamino with Env.Start or Sandbox.Start, or give it Sandbox.Rights", file, found)
			}
		}
	}
}

// worldMakers are allowed uses, by package and name.
var worldMakers = map[string]string{
	"moving sandbox.Environment":                 "the Python original, which changes the cloud before Kamino comes",
	`clusterapi "kubeconfig"`:                    "the reader of a page makes the account",
	"clusterapi sandbox.Env":                     "the same",
	"karpenter sandbox.Programs":                 "the reader of a page finds kamino in the PATH",
	`clusterapi "KAMINO_MANAGEMENT_KUBECONFIG="`: "an account with fewer rights",
}

// administratorIn returns the uses of names in administrators, and of the sandbox's kubeconfig.
func administratorIn(file *ast.File) (found []string) {
	kubeconfig := regexp.MustCompile(`^"kubeconfig"$|^"(KAMINO_MANAGEMENT_)?KUBECONFIG=`)
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			if of, is := n.X.(*ast.Ident); is && strings.EqualFold(of.Name, "sandbox") && slices.Contains(administrators, n.Sel.Name) {
				found = append(found, of.Name+"."+n.Sel.Name)
			}
		case *ast.BasicLit:
			if kubeconfig.MatchString(n.Value) {
				found = append(found, n.Value)
			}
		}
		return true
	})
	return found
}
