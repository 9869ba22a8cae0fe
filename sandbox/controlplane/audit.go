package controlplane

import (
	_ "embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"k8s.io/component-base/metrics/legacyregistry"
)

// auditPolicy decides what the audit log keeps of a request: who did what, and of writes to the objects of Kamino, nodes, locks,
// roles and recipes also the content.
//
//go:embed audit-policy.yaml
var auditPolicy []byte

// Size in MiB at which a new file begins, and the number of files. A log that loses a file is incomplete, and the check of the
// run fails. The limit is 4 GiB: the whole lights-out week of the long suite writes a fraction.
const (
	auditFileSize = 64
	auditFiles    = 63
)

// auditFlags let the API server write each event into DIR/audit.log, before the request ends: a log that is not complete
// would accuse a wrong client.
func auditFlags(dir string) ([]string, error) {
	if dir == "" {
		return nil, nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	policy := filepath.Join(dir, "audit-policy.yaml")
	if err := os.WriteFile(policy, auditPolicy, 0o600); err != nil {
		return nil, err
	}
	return []string{
		"--audit-policy-file=" + policy, "--audit-log-path=" + filepath.Join(dir, "audit.log"), "--audit-log-mode=blocking",
		fmt.Sprintf("--audit-log-maxsize=%d", auditFileSize), fmt.Sprintf("--audit-log-maxbackup=%d", auditFiles), "--audit-log-maxage=0",
	}, nil
}

// auditEvents is the number of events at the stop, or why it is not known.
var auditEvents = struct {
	count int
	err   error
}{err: errors.New("the control plane was not stopped")}

// AuditEvents is how many events the API server of this process has sent to the audit log, after Stop.
func AuditEvents() (int, error) { return auditEvents.count, auditEvents.err }

// countAuditEvents keeps the number of events, once the API server has stopped.
func countAuditEvents() {
	families, err := legacyregistry.DefaultGatherer.Gather()
	auditEvents.err = err
	if err == nil {
		auditEvents.err = errors.New("the API server does not count its audit events")
	}
	for _, f := range families {
		if f.GetName() == "apiserver_audit_event_total" && len(f.GetMetric()) == 1 {
			auditEvents.count, auditEvents.err = int(f.GetMetric()[0].GetCounter().GetValue()), nil
		}
	}
}
