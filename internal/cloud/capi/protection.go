package capi

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// A donor is powered off for a while, and a MachineHealthCheck would replace its unhealthy Machine. Two annotations protect the
// Machine: MachineHealthChecks skip the Machine, and a hook delays the deletion.

const (
	opProtect   = "hold"
	opUnprotect = "return to service"
)

// protectionAnnotations are the annotations of the protection, with their words in a token.
var protectionAnnotations = []struct{ word, annotation string }{{"skip-remediation", annotationSkip}, {"pre-drain", annotationHook}}

// protectionOf returns the protection of a Machine.
func protectionOf(m object) cloud.Protection {
	var words []string
	for _, h := range protectionAnnotations {
		if m.is(h.annotation) {
			words = append(words, h.word)
		}
	}
	if len(words) == 0 {
		return cloud.Protection{Token: cloud.TokenUnprotected, Lasts: true}
	}
	return cloud.Protection{Protected: len(words) == len(protectionAnnotations), Token: strings.Join(words, ","), Lasts: true}
}

// readToken parses a token and returns the annotations.
func readToken(op string, id cloud.InstanceID, token string) (map[string]bool, error) {
	has := map[string]bool{}
	if token == cloud.TokenUnprotected {
		return has, nil
	}
	for word := range strings.SplitSeq(token, ",") {
		at := slices.IndexFunc(protectionAnnotations, func(h struct{ word, annotation string }) bool { return h.word == word })
		if at < 0 {
			return nil, &cloud.Error{Kind: cloud.Invalid, Op: op, Resource: string(id),
				Message: fmt.Sprintf("the token %q is not a token of Cluster API", token[:min(len(token), cloud.MaxToken)])}
		}
		has[protectionAnnotations[at].annotation] = true
	}
	return has, nil
}

// Protection implements cloud.PoolProvider.
func (r *PoolProvider) Protection(ctx context.Context, id cloud.InstanceID) (cloud.Protection, error) {
	m, err := r.machineOf(ctx, "read the protection of", id)
	if err != nil {
		return cloud.Protection{}, err
	}
	if r.grouped(m) {
		return r.inGroups().protectionOf(ctx, id, protectionOf(m))
	}
	return protectionOf(m), nil
}

// ProtectFromScaleIn implements cloud.PoolProvider.
func (r *PoolProvider) ProtectFromScaleIn(ctx context.Context, id cloud.InstanceID, token string) error {
	if token == "" {
		return nil
	}
	ofMachine, _ := splitToken(token)
	if _, err := readToken(opProtect, id, ofMachine); err != nil {
		return err
	}
	if err := r.inGroups().protect(ctx, opProtect, id, token); err != nil {
		return err
	}
	all := map[string]bool{}
	for _, h := range protectionAnnotations {
		all[h.annotation] = true
	}
	return retryOnConflict(func() error { return r.setProtection(cloud.WithoutReadCache(ctx), opProtect, id, all) })
}

// Unprotect implements cloud.PoolProvider.
func (r *PoolProvider) Unprotect(ctx context.Context, id cloud.InstanceID, token string) error {
	if token == "" {
		return nil
	}
	ofMachine, _ := splitToken(token)
	has, err := readToken(opUnprotect, id, ofMachine)
	if err != nil {
		return err
	}
	if err := r.inGroups().protect(ctx, opUnprotect, id, token); err != nil && !cloud.Is(err, cloud.NotFound) {
		return err
	}
	return retryOnConflict(func() error { return r.setProtection(cloud.WithoutReadCache(ctx), opUnprotect, id, has) })
}

// setProtection sets exactly these protection annotations on the Machine of an instance. Existing annotations keep their value.
func (r *clusterAccess) setProtection(ctx context.Context, op string, id cloud.InstanceID, has map[string]bool) error {
	if err := r.requireNotMoved(ctx, op); err != nil {
		return err
	}
	m, err := r.machineOf(ctx, op, id)
	if err != nil {
		return err
	}
	change := map[string]any{}
	for _, h := range protectionAnnotations {
		switch {
		case has[h.annotation] && !m.is(h.annotation):
			change[h.annotation] = ""
		case !has[h.annotation] && m.is(h.annotation):
			change[h.annotation] = nil
		}
	}
	if len(change) == 0 {
		return nil
	}
	_, err = r.kube.annotate(ctx, op, m, change)
	return err
}
