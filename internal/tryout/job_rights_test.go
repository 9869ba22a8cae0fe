package tryout

import (
	"strings"
	"testing"
)

// TestAJobPullsWithNoSecretAndRunsInTheNodesRuntime: each would let who may write a ConfigMap use a Secret of the namespace, or leave the
// runtime whose isolation the node's other pods have.
func TestAJobPullsWithNoSecretAndRunsInTheNodesRuntime(t *testing.T) {
	for line, says := range map[string]string{
		"imagePullSecrets: [{name: registry}]": "imagePullSecrets: have the service account default of namespace kamino-system name them",
		"runtimeClassName: unconfined":         "runtimeClassName: leave it out",
	} {
		_, err := parseJob(strings.Replace(goodJob, "      restartPolicy: Never\n", "      restartPolicy: Never\n      "+line+"\n", 1), "kamino-system")
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %q", line, err, says)
		}
	}
}
