package trialnode

import (
	"strings"
	"testing"
)

// TestAJobPullsWithNoSecretAndRunsInTheNodesRuntime: each field would let a writer of a ConfigMap use a Secret of the
// namespace, or leave the isolation of the node's runtime.
func TestAJobPullsWithNoSecretAndRunsInTheNodesRuntime(t *testing.T) {
	for line, says := range map[string]string{
		"imagePullSecrets: [{name: registry}]": "imagePullSecrets: remove the field, " +
			"and add the Secrets to the service account default of namespace kamino-system",
		"runtimeClassName: unconfined": "runtimeClassName: remove the field",
	} {
		_, err := parseJob(strings.Replace(goodJob, "      restartPolicy: Never\n", "      restartPolicy: Never\n      "+line+"\n", 1), "kamino-system")
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %q", line, err, says)
		}
	}
}
