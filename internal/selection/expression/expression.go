// Package expression compiles and evaluates CEL expressions about a node: refusal and score of a policy, and
// expectations of a trial.
//
// A policy's expression has two variables: node, the Node as JSON, and now, a timestamp. An expectation has the
// variables node and peers, a list of Nodes. An expression has CEL's functions and the
// extensions for strings, lists, sets, maths, encodings and optional values. The work for each node is bounded, and an
// expression can read nothing but its variables.
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

// CostLimit is the limit of work for one node, in CEL's units of about one step. Comparing a few fields costs about ten
// units, a loop over all labels about a hundred.
const CostLimit = 100_000

// Limits of a parsed expression. The time of CEL's type checker grows with the third power of the nesting.
const (
	maxNesting = 30
	maxParts   = 1000
	// lessNesting is the remedy for both limits of nesting.
	lessNesting = "put fewer lists, maps, calls and macros into each other"
)

// Expressions are the compiled expressions of a policy. Nil refuses no node and scores all nodes zero. Expressions is
// safe for concurrent use.
type Expressions struct {
	refuse, score cel.Program
}

// Compile compiles the two expressions. Either may be empty; if both are empty, the result is nil. The error names the
// expression, the position and CEL's message.
func Compile(refuse, score string) (*Expressions, error) {
	if refuse == "" && score == "" {
		return nil, nil
	}
	env, err := environment(cel.Variable("now", cel.TimestampType))
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

// environment has the variable node and another variable.
func environment(another cel.EnvOption) (*cel.Env, error) {
	env, err := cel.NewEnv(
		cel.Variable("node", cel.DynType),
		another,
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

// program compiles one expression; nil if the text is empty. The type of a dyn result is checked at evaluation.
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

// tooLarge refuses an expression with a long type check.
func tooLarge(parsed ast.NavigableExpr) error {
	nesting, parts := measure(parsed)
	switch {
	case nesting > maxNesting:
		return fmt.Errorf("is nested %d levels deep, and at most %d are allowed: %s", nesting, maxNesting, lessNesting)
	case parts > maxParts:
		return fmt.Errorf("has %d parts, and at most %d are allowed: shorten the expression, or use a label", parts, maxParts)
	}
	return nil
}

// measure returns the nesting and the number of parts of an expression. Terms of a sum and nested fields are on one
// level.
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

// flat has the operators that people write in a row.
var flat = map[string]bool{operators.Add: true, operators.Subtract: true, operators.Multiply: true, operators.LogicalAnd: true,
	operators.LogicalOr: true, operators.Index: true}

// complaint returns CEL's first error without the drawing of the position.
func complaint(issues *cel.Issues) error {
	first := issues.Errors()[0]
	if strings.Contains(first.Message, "recursion") { // CEL's own limits come without a position
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

// Evaluate reports whether the node is refused, and the node's score. An error is about this node: the expression reads
// a missing field, exceeds CostLimit, or returns a value of a wrong type.
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

// evaluate runs a program. CEL turns panics of its functions into errors.
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
		return 0, fmt.Errorf("gives %v, which is no number to sort by", f)
	}
	return f, nil
}
