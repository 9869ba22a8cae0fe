package cloud

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// ResolvePool resolves a text to a pool among pools with names: an equal ID or name, else the only name with the text as a
// part. Case is ignored. The error lists the matches if there are several, and the most similar name if there is none.
func ResolvePool(text string, names map[PoolID]string) (PoolID, error) {
	var whole, part []PoolID
	for id, name := range names {
		switch {
		case strings.EqualFold(string(id), text), strings.EqualFold(name, text):
			whole = append(whole, id)
		case text != "" && strings.Contains(strings.ToLower(name), strings.ToLower(text)):
			part = append(part, id)
		}
	}
	slices.Sort(whole)
	switch {
	case len(whole) == 1:
		return whole[0], nil
	case len(whole) > 1:
		return "", fmt.Errorf("%d pools have the name %s: pass a pool ID, for example %s", len(whole), text, whole[0])
	case len(part) == 1:
		return part[0], nil
	case len(part) > 1:
		return "", fmt.Errorf("%d pools have %s in the name: pass more of the name: %s", len(part), text, listed(part, names))
	case len(names) == 0:
		return "", unknownPool(fmt.Sprintf("pool %q not found: no node of this cluster belongs to a pool. Pass the full ID of the pool in the cloud", text))
	default:
		return "", unknownPool(fmt.Sprintf("pool %q not found; did you mean %s? `kamino status` lists pools. For a pool without nodes, pass "+
			"the full ID in the cloud", text, nearest(text, names)))
	}
}

// unknownPool is the error for a text without a matching pool.
type unknownPool string

func (e unknownPool) Error() string { return string(e) }

// poolNames finds pools, also pools without nodes.
type poolNames interface {
	PoolName(id PoolID) string
	ReadPool(text string) (PoolID, bool)
	PoolsInScope(ctx context.Context, pools ...PoolID) ([]PoolID, error)
}

// Find calls ResolvePool for the known pools. Without a match Find asks the provider for neighbouring pools, which may
// have no nodes. A full ID is accepted without a check.
func Find(ctx context.Context, provider poolNames, text string, known []PoolID) (PoolID, error) {
	named := func(ids []PoolID) map[PoolID]string {
		names := map[PoolID]string{}
		for _, id := range ids {
			names[id] = provider.PoolName(id)
		}
		return names
	}
	id, err := ResolvePool(text, named(known))
	var unknown unknownPool
	if !errors.As(err, &unknown) {
		return id, err
	}
	if id, ok := provider.ReadPool(text); ok {
		return id, nil
	}
	beside, refused := provider.PoolsInScope(ctx, known...)
	if refused != nil || len(beside) == 0 {
		return "", err
	}
	if id, other := ResolvePool(text, named(append(beside, known...))); !errors.As(other, &unknown) {
		return id, other
	}
	return "", err
}

// maxOffered is the number of pools in an error.
const maxOffered = 3

func listed(ids []PoolID, names map[PoolID]string) string {
	var all []string
	for _, id := range ids {
		all = append(all, names[id])
	}
	slices.Sort(all)
	if more := len(all) - maxOffered; more > 0 {
		return fmt.Sprintf("%s or %d more", strings.Join(all[:maxOffered], ", "), more)
	}
	return strings.Join(all, " or ")
}

// nearest returns the name with the most in common with a text.
func nearest(text string, names map[PoolID]string) string {
	var all []string
	for _, name := range names {
		all = append(all, name)
	}
	return slices.MinFunc(all, func(a, b string) int {
		return cmp.Or(cmp.Compare(common(b, text), common(a, text)), cmp.Compare(len(a), len(b)), cmp.Compare(a, b))
	})
}

// common counts the pairs of adjacent letters of b that are also in a.
func common(a, b string) int {
	a, b = strings.ToLower(a), strings.ToLower(b)
	count := 0
	for i := range max(0, len(b)-1) {
		if strings.Contains(a, b[i:i+2]) {
			count++
		}
	}
	return count
}
