package expression

import (
	"errors"
	"fmt"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Expectation is a compiled expression about a trial node. Expectation is safe for concurrent use.
type Expectation struct{ that cel.Program }

// CompileExpectation compiles an expression with the variables node and peers. The error has the position and CEL's message.
func CompileExpectation(that string) (*Expectation, error) {
	if that == "" {
		return nil, errors.New("is empty: want an expression such as size(node.spec.taints) == 0")
	}
	env, err := environment(cel.Variable("peers", cel.ListType(cel.DynType)))
	if err != nil {
		return nil, err
	}
	program, err := program(env, that, cel.BoolType)
	if err != nil {
		return nil, err
	}
	return &Expectation{program}, nil
}

// IsMet evaluates the expression. An error is about these nodes: the expression reads a missing field, exceeds CostLimit,
// or has another type than bool.
func (e *Expectation) IsMet(node *corev1.Node, peers []*corev1.Node) (bool, error) {
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(node)
	if err != nil {
		return false, fmt.Errorf("write the node as JSON: %w", err)
	}
	others := make([]any, len(peers))
	for i, p := range peers {
		if others[i], err = runtime.DefaultUnstructuredConverter.ToUnstructured(p); err != nil {
			return false, fmt.Errorf("write node %s as JSON: %w", p.Name, err)
		}
	}
	value, err := evaluate(e.that, map[string]any{"node": object, "peers": others})
	if err != nil {
		return false, err
	}
	met, ok := value.(types.Bool)
	if !ok {
		return false, fmt.Errorf("gives %s, and must give true or false", value.Type().TypeName())
	}
	return bool(met), nil
}
