// Command generate writes the generated parts of the Helm chart: the definitions of Kamino's kinds, the rules of its
// roles, and the schema of a policy in the chart's values.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	chart := flag.String("chart", "charts/kamino", "directory of the chart")
	flag.Parse()
	if err := generate(*chart); err != nil {
		fmt.Fprintln(os.Stderr, "generate the chart:", err)
		os.Exit(1)
	}
}

// generate writes the files below the chart's directory.
func generate(chart string) error {
	files, err := render(chart)
	if err != nil {
		return err
	}
	if err := removeOthers(filepath.Join(chart, "crds"), files); err != nil {
		return err
	}
	for path, text := range files {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, text, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// removeOthers deletes the files of removed definitions.
func removeOthers(dir string, files map[string][]byte) error {
	there, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err != nil {
		return err
	}
	for _, path := range there {
		if _, wanted := files[path]; !wanted {
			if err := os.Remove(path); err != nil {
				return err
			}
		}
	}
	return nil
}
