package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// figure is a measure of the house. Smaller is better.
type figure struct {
	name, meaning string
	// remedy is an imperative for a figure that is worse than its limit.
	remedy  string
	measure func(*house) (n float64, where string)
}

// value is a figure with its value and its worst place.
type value struct {
	figure
	n     float64
	where string
}

const (
	joinPackages  = "join packages that change together"
	separateFiles = "let one file use the other, and not the reverse"
	splitStruct   = "give each part of the work a struct of its own"
	splitType     = "give each part of the work a type with its own dependencies"
	splitFunction = "split the function by what it decides"
	removeCode    = "remove code"
	removeField   = "remove a field that a default can replace"
	takeFact      = "take the action from the table of its provider"
)

// figures are all measures, in the order of the table.
var figures = []figure{
	{"lines-control-plane", "lines of `api`, `cmd` and `internal` without tests, generated files, node agent and test kit", removeCode, linesOf(controlPlane)},
	{"lines-node-agent", "lines of folders whose code runs only in a pod on a node (table in `hack/figures/house.go`)", removeCode, linesOf(nodeAgent)},
	{"lines-test-kit", "lines of folders below `internal` that only tests import (same table)", removeCode, linesOf(testKit)},
	{"lines-sandbox", "lines of `sandbox` without tests and generated files", removeCode, linesOf(sandbox)},
	{"packages", "packages of `api`, `cmd` and `internal`, with the test kit", joinPackages, packagesAt(0, 99)},
	{"packages-level-1", "packages directly below `internal`", joinPackages, packagesAt(1, 1)},
	{"packages-level-2", "packages one folder deeper", joinPackages, packagesAt(2, 2)},
	{"packages-level-3", "packages two folders deeper, or more", joinPackages, packagesAt(3, 99)},
	{"folder-pairs", "pairs of folders directly below `internal` that import each other, with the folders below",
		"move the shared code below both folders", folderPairs},
	{"back-arrows", "pairs of files of a package that use declarations of each other, summed over all packages", separateFiles, sumAbove(0, filePairs)},
	{"back-arrows-package", "pairs of files, in the package with most", separateFiles, largest(filePairs)},
	{"struct-fields", "fields of the largest struct; an embedded struct of the product counts with its fields", splitStruct, largest(structs)},
	{"struct-fields-excess", "fields that a struct has above 17, summed over all structs", splitStruct, sumAbove(17, structs)},
	{"structs-large", "structs with more than 17 fields", splitStruct, countAbove(17, structs)},
	{"type-methods", "methods of the largest type: declared, promoted by embedding, and declared by its wrappers over several levels",
		splitType, largest(methods)},
	{"type-methods-excess", "methods that a type has above 20, summed over all types", splitType, sumAbove(20, methods)},
	{"types-large", "types with more than 20 methods", splitType, countAbove(20, methods)},
	{"interface-methods", "methods of the largest interface, with embedded interfaces", "ask for a smaller interface where it is used", largest(interfaces)},
	{"function-branches", "branches of the largest function, as gocyclo counts, without exemptions", splitFunction, largest(functions)},
	{"functions-branched", "functions with more than 16 branches", splitFunction, countAbove(16, functions)},
	{"columns", "columns of the widest line; a tab has 4 columns", "break the line", largest(widths)},
	{"lines-wide", "lines with more than 160 columns", "break the lines", countAbove(160, widths)},
	{"reasons", "distinct reasons in the index of reasons", "give the cases with one remedy one reason", reasons},
	{"crd-fields", "leaf fields of spec and status of all kinds; a list or map has the leaves of its element, or is one leaf", removeField, crdFields("")},
	{"crd-fields-order", "leaf fields of NodeOrder", removeField, crdFields("NodeOrder")},
	{"crd-fields-policy", "leaf fields of PrototypePolicy", removeField, crdFields("PrototypePolicy")},
	{"crd-fields-prototype", "leaf fields of Prototype", removeField, crdFields("Prototype")},
	{"test-lines-without-test", "lines of test files without Test, Fuzz, Benchmark or Example, in all modules",
		"use the shared test kit, or remove helpers", testLines},
	{"fact-places", "files that name an action of a cloud, as tables of permissions list them, on average", takeFact, factPlaces},
	{"fact-places-most", "files that name the action with most", takeFact, factPlacesMost},
}

// mayBeZero are figures that can reach zero. Zero of another figure means that the figure no longer finds its subject.
var mayBeZero = strings.Fields(`packages-level-3 folder-pairs back-arrows back-arrows-package struct-fields-excess structs-large type-methods-excess
	types-large functions-branched lines-wide test-lines-without-test`)

// measure returns the values of all figures.
func measure(h *house) (values []value, err error) {
	for _, f := range figures {
		n, where := f.measure(h)
		if n == 0 && !slices.Contains(mayBeZero, f.name) {
			err = errors.Join(err, fmt.Errorf("%s is 0, so the program no longer finds what it measures: correct hack/figures", f.name))
		}
		values = append(values, value{f, n, where})
	}
	return values, err
}

// counter calls see with the count of each declaration, file or line. Folder and name together are its place.
type counter func(h *house, see func(n int, folder, name string))

// tally sums up counts by place, and remembers the first place with most.
type tally struct {
	total, most int
	where       string
	by          map[string]int
}

func (t *tally) add(n int, where string) {
	if t.by == nil {
		t.by = map[string]int{}
	}
	t.total += n
	if t.by[where] += n; t.by[where] > t.most {
		t.most, t.where = t.by[where], where
	}
}

// sum returns the total, and the place with most.
func (t *tally) sum() (float64, string) {
	if t.total == 0 {
		return 0, ""
	}
	return float64(t.total), fmt.Sprintf("%s: %d", t.where, t.most)
}

func largest(c counter) func(*house) (float64, string) {
	return func(h *house) (float64, string) {
		most, where := 0, ""
		c(h, func(n int, folder, name string) {
			if n > most {
				most, where = n, folder+name
			}
		})
		return float64(most), where
	}
}

// countAbove counts what has more than limit. The worst place is a folder or file.
func countAbove(limit int, c counter) func(*house) (float64, string) {
	return func(h *house) (float64, string) {
		var t tally
		c(h, func(n int, folder, _ string) {
			if n > limit {
				t.add(1, folder)
			}
		})
		return t.sum()
	}
}

// sumAbove sums up what is more than limit.
func sumAbove(limit int, c counter) func(*house) (float64, string) {
	return func(h *house) (float64, string) {
		var t tally
		c(h, func(n int, folder, name string) { t.add(max(n-limit, 0), folder+name) })
		return t.sum()
	}
}
