package main

import (
	"go/ast"
	"go/token"
	"go/types"
	"path/filepath"
	"slices"
	"strings"
)

// folderPairs counts pairs of folders directly below internal. Imports of tests and of the test kit do not count.
func folderPairs(h *house) (float64, string) {
	arrows := map[[2]string]bool{}
	root := func(p *types.Package) string {
		rest, _ := strings.CutPrefix(p.Path(), module+"internal/")
		first, _, _ := strings.Cut(rest, "/")
		return first
	}
	for _, p := range h.packages {
		for _, imported := range p.types.Imports() {
			if strings.HasPrefix(imported.Path(), module+"internal/") {
				arrows[[2]string{root(p.types), root(imported)}] = true
			}
		}
	}
	pairs := mutual(arrows)
	return float64(len(pairs)), strings.Join(pairs, ", ")
}

// mutual returns the pairs with an arrow in both directions, sorted.
func mutual(arrows map[[2]string]bool) (pairs []string) {
	for a := range arrows {
		if a[0] < a[1] && arrows[[2]string{a[1], a[0]}] {
			pairs = append(pairs, a[0]+" and "+a[1])
		}
	}
	slices.Sort(pairs)
	return pairs
}

// filePairs counts the pairs of files of each package that use each other's functions, types, variables, constants, fields
// or methods. Generated files do not count.
func filePairs(h *house, see func(pairs int, folder, _ string)) {
	for _, p := range h.packages {
		generated, arrows := map[string]bool{}, map[[2]string]bool{}
		file := func(at token.Pos) string { return filepath.Base(p.set.Position(at).Filename) }
		for _, f := range p.syntax {
			generated[file(f.Package)] = ast.IsGenerated(f)
		}
		for name, object := range p.info.Uses {
			if object.Pkg() != p.types || !object.Pos().IsValid() {
				continue
			}
			if from, to := file(name.Pos()), file(object.Pos()); !generated[from] && !generated[to] {
				arrows[[2]string{from, to}] = true
			}
		}
		see(len(mutual(arrows)), p.short, "")
	}
}

// named calls see with each declared type of the product, in order of folder and name. Aliases are left out.
func named(h *house, see func(t *types.Named, folder, name string)) {
	for _, p := range h.packages {
		for _, n := range p.types.Scope().Names() {
			if name, is := p.types.Scope().Lookup(n).(*types.TypeName); is && !name.IsAlias() {
				see(name.Type().(*types.Named), p.short, "."+n)
			}
		}
	}
}

func interfaces(h *house, see func(methods int, folder, name string)) {
	named(h, func(t *types.Named, folder, name string) {
		if i, is := t.Underlying().(*types.Interface); is {
			see(i.NumMethods(), folder, name)
		}
	})
}

func structs(h *house, see func(fields int, folder, name string)) {
	named(h, func(t *types.Named, folder, name string) {
		if s, is := t.Underlying().(*types.Struct); is {
			see(fields(s), folder, name)
		}
	})
}

// fields counts the fields of a struct. An embedded pointer, and an embedded struct of another module, is one field.
func fields(s *types.Struct) (n int) {
	for f := range s.Fields() {
		inner, isStruct := f.Type().Underlying().(*types.Struct)
		if _, isOwn := own(f.Type()); f.Embedded() && isStruct && isOwn {
			n += fields(inner)
		} else {
			n++
		}
	}
	return n
}

// own returns a named type of the project.
func own(t types.Type) (*types.Named, bool) {
	n, is := types.Unalias(t).(*types.Named)
	if !is || n.Obj().Pkg() == nil || !strings.HasPrefix(n.Obj().Pkg().Path(), module) {
		return nil, false
	}
	return n.Origin(), true
}

// wrapped returns the types whose state a type shares. A wrapper embeds a pointer, or another wrapper, or has a single field.
func wrapped(t types.Type) (inner []*types.Named) {
	s, is := t.Underlying().(*types.Struct)
	if !is {
		return nil
	}
	for f := range s.Fields() {
		to := types.Unalias(f.Type())
		pointer, isPointer := to.(*types.Pointer)
		if isPointer {
			to = pointer.Elem()
		}
		n, isOwn := own(to)
		if isOwn && n != t && !types.IsInterface(n) && (s.NumFields() == 1 || f.Embedded() && (isPointer || len(wrapped(n)) > 0)) {
			inner = append(inner, n)
		}
	}
	return inner
}

// methods counts the methods of each type that is no wrapper: declared and promoted ones, and those that wrappers declare.
func methods(h *house, see func(methods int, folder, name string)) {
	wrappers := map[*types.Named][]*types.Named{}
	named(h, func(t *types.Named, _, _ string) {
		for _, inner := range wrapped(t) {
			wrappers[inner] = append(wrappers[inner], t)
		}
	})
	named(h, func(t *types.Named, folder, name string) {
		if len(wrapped(t)) > 0 {
			return
		}
		n, seen := types.NewMethodSet(types.NewPointer(t)).Len(), map[*types.Named]bool{t: true}
		for rest := wrappers[t]; len(rest) > 0; rest = rest[1:] {
			if w := rest[0]; !seen[w] {
				seen[w] = true
				n += w.NumMethods()
				rest = append(rest, wrappers[w]...)
			}
		}
		see(n, folder, name)
	})
}
