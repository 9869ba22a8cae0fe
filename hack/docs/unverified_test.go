package docs

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const awsPage = "reference/aws.md"

// unverified matches a comment about an assumption: the topic and the sentence. The comment stands where the code relies on
// the assumption.
var unverified = regexp.MustCompile(`(?m)^\s*// Not verified on AWS, (\w+): (.+)\.$`)

// unverifiedOnAWS is the page about AWS with the assumptions of the simulation and of the provider, by topic.
func unverifiedOnAWS(t *testing.T) string {
	var rows []string
	for _, dir := range []string{"../sandbox/aws", "../internal/cloud/aws"} {
		files, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			found := unverified.FindAllStringSubmatch(string(text), -1)
			if n := strings.Count(string(text), "Not verified on AWS"); n != len(found) {
				t.Errorf("%s: %d of %d comments about assumptions have the form \"Not verified on AWS, TOPIC: SENTENCE.\"", file, len(found), n)
			}
			for _, row := range found {
				rows = append(rows, fmt.Sprintf("| %s | %s |\n", row[1], row[2]))
			}
		}
	}
	slices.Sort(rows)
	const heading, head = "\n## Not verified on real AWS\n", "| topic | assumption |\n|---|---|\n"
	before, rest, found := strings.Cut(page(t, awsPage), heading)
	intro, table, has := strings.Cut(rest, head)
	if !found || !has {
		t.Fatalf("docs/%s has no table of assumptions below %q", awsPage, strings.TrimSpace(heading))
	}
	for strings.HasPrefix(table, "|") {
		_, table, _ = strings.Cut(table, "\n")
	}
	return before + heading + intro + head + strings.Join(rows, "") + table
}
