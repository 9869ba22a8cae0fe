package controlplane

import (
	_ "embed"
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

// AuditEvents is how many events the API server of this process has sent to the audit log. The number is final after Stop.
func AuditEvents() (int, error) {
	families, err := legacyregistry.DefaultGatherer.Gather()
	if err != nil {
		return 0, err
	}
	for _, f := range families {
		if f.GetName() == "apiserver_audit_event_total" && len(f.GetMetric()) == 1 {
			return int(f.GetMetric()[0].GetCounter().GetValue()), nil
		}
	}
	return 0, fmt.Errorf("the API server does not count its audit events")
}
