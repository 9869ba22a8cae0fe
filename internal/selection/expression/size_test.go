package expression

import (
	"strings"
	"testing"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
)

// nested returns an expression with the given number of levels.
func nested(open, inner, end string, levels int) string {
	return strings.Repeat(open, levels) + inner + strings.Repeat(end, levels)
}

// TestLargeExpressionsAreRefused before the type check: the type check of some of these took half a minute.
func TestLargeExpressionsAreRefused(t *testing.T) {
	for name, test := range map[string]struct{ text, says string }{
		"lists of maps": {nested("[{1:", "1", "}]", 120) + "==[]", "selection.refuse is nested 241 levels deep, and at most 30 are allowed: put fewer"},
		"more than CEL reads": {nested("[{1:", "1", "}]", 161) + "==[]",
			"selection.refuse is nested too deep for CEL (expression recursion limit exceeded: 250), and at most 30 levels are allowed"},
		"a long sum":      {strings.Repeat("1+", 450) + "1 == 1", "is nested too deep for CEL"},
		"ternaries":       {nested("[true?[]:", "[]", "]", 100) + " == []", "levels deep, and at most 30 are allowed"},
		"macros":          {nested("[1].map(a,", "1", ")", 100) + " == []", "levels deep, and at most 30 are allowed"},
		"macros in a row": {"[1]" + strings.Repeat(".map(a,[a])", 40) + " == []", "levels deep, and at most 30 are allowed"},
		"optional values": {nested("optional.of(1).optMap(a,", "1", ")", 100) + " == optional.none()", "levels deep, and at most 30 are allowed"},
		"calls":           {nested("dyn(", "true", ")", 31), "is nested 31 levels deep, and at most 30 are allowed"},
		"many parts":      {"1 in [" + strings.Repeat("1,", 1000) + "1]", "has 1004 parts, and at most 1000 are allowed: shorten the expression"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := Compile(test.text, ""); err == nil || !strings.Contains(err.Error(), test.says) {
				t.Errorf("%v, want %q", err, test.says)
			}
		})
	}
}

// TestExpressionsMayBeLong if the nesting is shallow.
func TestExpressionsMayBeLong(t *testing.T) {
	label := `(node.metadata.labels[?"a"].orValue("") == "b" ? 1 : 0)`
	for name, text := range map[string]string{
		"a sum":             strings.TrimSuffix(strings.Repeat(label+" + ", 50), " + ") + " > 3",
		"alternatives":      strings.TrimSuffix(strings.Repeat(`node.metadata.name == "n1" || `, 100), " || "),
		"names":             `node.metadata.name in [` + strings.Repeat(`"n1",`, 400) + `"n2"]`,
		"conditions":        strings.Repeat(`node.metadata.name == "n1" ? true : `, 28) + "false",
		"nested macros":     `node.status.conditions.exists(c, node.spec.taints.exists(t, ["a"].exists(a, a == t.key || a == c.type)))`,
		"as deep as may be": nested("dyn(", "true", ")", 30),
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := Compile(text, ""); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestNestingIsCounted: nesting counts, the length of a list does not.
func TestNestingIsCounted(t *testing.T) {
	env, err := environment(cel.Variable("peers", cel.DynType))
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string][2]int{
		`1`:                       {0, 1},
		`1 + 2 + 3 + 4`:           {1, 7},
		`1 + (2 + (3 + 4))`:       {3, 7},
		`node.spec.a.b.c`:         {0, 5},
		`node["a"]["b"]["c"]`:     {1, 7},
		`[[1], [2, 3]]`:           {2, 6},
		`{"a": {"b": 1}}`:         {2, 5},
		`node.name.startsWith(a)`: {1, 4},
		`dyn(dyn(1))`:             {2, 3},
		`true ? 1 : 2`:            {1, 4},
	} {
		parsed, issues := env.Parse(text)
		if issues.Err() != nil {
			t.Fatal(issues.Err())
		}
		if nesting, parts := measure(ast.NavigateAST(parsed.NativeRep())); [2]int{nesting, parts} != want {
			t.Errorf("%s: %d levels and %d parts, want %v", text, nesting, parts, want)
		}
	}
}
