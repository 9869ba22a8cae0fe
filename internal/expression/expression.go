// Package expression compiles and evaluates what a policy's author wrote in CEL about a node: whether it is
// refused, and how good it is. What follows from that is package selection's to decide.
//
// An expression sees two variables: node, the Node as its JSON would be, and now, a timestamp. It has CEL's own
// functions and those for strings, lists, sets, maths, encodings and optional values. It costs a bounded amount of work for each
// node, and can reach nothing but what it is given.
package expression

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/ext"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// CostLimit is how much work an expression may do for one node, in CEL's own units: about one for each step.
// A comparison of a few fields takes some ten, a walk over all labels some hundred.
const CostLimit = 100_000

// Limits of an expression as it is parsed. The time that CEL's type checker takes grows with the third power of the nesting.
const (
	maxNesting = 30
	maxParts   = 1000
	// lessNesting is the remedy.
	lessNesting = "put fewer lists, maps, calls and macros into each other"
)

// Expressions of a policy. A nil one refuses no node and scores all of them zero. Safe for concurrent use.
type Expressions struct {
	refuse, score cel.Program
}

// Compile the two expressions, each of which may be empty. If both are, the result is nil. The error says
// which one is wrong, where, and what CEL has to say about it.
func Compile(refuse, score string) (*Expressions, error) {
	if refuse == "" && score == "" {
		return nil, nil
	}
	env, err := environment()
	if err != nil {
		return nil, err
	}
	e := &Expressions{}
	if e.refuse, err = program(env, refuse, cel.BoolType); err != nil {
		return nil, fmt.Errorf("selection.refuse %w", err)
	}
	if e.score, err = program(env, score, cel.DoubleType, cel.IntType, cel.UintType); err != nil {
		return nil, fmt.Errorf("selection.score %w", err)
	}
	return e, nil
}

func environment() (*cel.Env, error) {
	env, err := cel.NewEnv(
		cel.Variable("node", cel.DynType),
		cel.Variable("now", cel.TimestampType),
		cel.OptionalTypes(),
		cel.DefaultUTCTimeZone(true),
		cel.CrossTypeNumericComparisons(true),
		ext.Strings(), ext.Math(), ext.Lists(), ext.Sets(), ext.Encoders(),
	)
	if err != nil {
		return nil, fmt.Errorf("prepare CEL: %w", err)
	}
	return env, nil
}

// program compiles one expression; nil if it is empty. What has the type dyn is judged when it is evaluated.
func program(env *cel.Env, text string, wanted ...*cel.Type) (cel.Program, error) {
	if text == "" {
		return nil, nil
	}
	parsed, issues := env.Parse(text)
	if issues.Err() != nil {
		return nil, complaint(issues)
	}
	if err := tooLarge(ast.NavigateAST(parsed.NativeRep())); err != nil {
		return nil, err
	}
	checked, issues := env.Check(parsed)
	if issues.Err() != nil {
		return nil, complaint(issues)
	}
	if result := checked.OutputType(); !allowed(result, wanted) {
		return nil, fmt.Errorf("gives %s, and must give %s", result, words(wanted))
	}
	p, err := env.Program(checked, cel.EvalOptions(cel.OptOptimize), cel.CostLimit(CostLimit))
	if err != nil {
		return nil, fmt.Errorf("cannot be used: %w", err)
	}
	return p, nil
}

// tooLarge refuses an expression whose types would take long to check.
func tooLarge(parsed ast.NavigableExpr) error {
	nesting, parts := measure(parsed)
	switch {
	case nesting > maxNesting:
		return fmt.Errorf("is nested %d levels deep, and at most %d are allowed: %s", nesting, maxNesting, lessNesting)
	case parts > maxParts:
		return fmt.Errorf("has %d parts, and at most %d are allowed: shorten it, or decide by a label instead", parts, maxParts)
	}
	return nil
}

// measure counts an expression's parts and the levels of its nesting. Terms of a sum, and fields of fields, are on one level.
func measure(e ast.NavigableExpr) (nesting, parts int) {
	parts = 1
	for i, child := range e.Children() {
		level := 1
		if i == 0 && (e.Kind() == ast.SelectKind || e.Kind() == ast.CallKind && flat[e.AsCall().FunctionName()]) {
			level = 0
		}
		n, p := measure(child)
		nesting, parts = max(nesting, n+level), parts+p
	}
	return nesting, parts
}

// flat are the operators that are written in a row.
var flat = map[string]bool{operators.Add: true, operators.Subtract: true, operators.Multiply: true, operators.LogicalAnd: true, operators.LogicalOr: true, operators.Index: true}

// complaint is CEL's first objection, without the drawing that points at the place.
func complaint(issues *cel.Issues) error {
	first := issues.Errors()[0]
	if strings.Contains(first.Message, "recursion") { // CEL's own limits, which tell no place
		return fmt.Errorf("is nested too deep for CEL (%s), and at most %d levels are allowed: %s", first.Message, maxNesting, lessNesting)
	}
	message, _, _ := strings.Cut(first.Message, "\n")
	return fmt.Errorf("is wrong at line %d, column %d: %s", first.Location.Line(), first.Location.Column()+1, message)
}

func allowed(result *cel.Type, wanted []*cel.Type) bool {
	if result.IsExactType(cel.DynType) {
		return true
	}
	for _, t := range wanted {
		if result.IsExactType(t) {
			return true
		}
	}
	return false
}

func words(wanted []*cel.Type) string {
	if len(wanted) > 1 {
		return "a number"
	}
	return "true or false"
}

// Evaluate tells whether the node is refused, and its score. Only an error about this node is returned: the
// expression asks for a field that it does not have, does more work than CostLimit allows, or gives something
// else than a truth value or a finite number.
func (e *Expressions) Evaluate(node *corev1.Node, now time.Time) (refused bool, score float64, err error) {
	if e == nil {
		return false, 0, nil
	}
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(node)
	if err != nil {
		return false, 0, fmt.Errorf("the node cannot be written as JSON: %w", err)
	}
	input := map[string]any{"node": object, "now": now}
	if e.refuse != nil {
		value, err := evaluate(e.refuse, input)
		if err != nil {
			return false, 0, fmt.Errorf("selection.refuse: %w", err)
		}
		answer, ok := value.(types.Bool)
		if !ok {
			return false, 0, fmt.Errorf("selection.refuse gives %s, and must give true or false", value.Type().TypeName())
		}
		refused = bool(answer)
	}
	if e.score != nil {
		value, err := evaluate(e.score, input)
		if err != nil {
			return refused, 0, fmt.Errorf("selection.score: %w", err)
		}
		if score, err = number(value); err != nil {
			return refused, 0, fmt.Errorf("selection.score %w", err)
		}
	}
	return refused, score, nil
}

// evaluate runs a program. CEL turns what its functions panic with into errors.
func evaluate(p cel.Program, input map[string]any) (ref.Val, error) {
	value, _, err := p.Eval(input)
	if err != nil {
		return nil, err
	}
	if types.IsUnknownOrError(value) {
		return nil, errors.New("no value")
	}
	return value, nil
}

func number(value ref.Val) (float64, error) {
	var f float64
	switch v := value.(type) {
	case types.Double:
		f = float64(v)
	case types.Int:
		f = float64(v)
	case types.Uint:
		f = float64(v)
	default:
		return 0, fmt.Errorf("gives %s, and must give a number", value.Type().TypeName())
	}
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return 0, fmt.Errorf("gives %v, which orders nothing", f)
	}
	return f, nil
}
