package conformance

import (
	"crypto/rand"
	"os"
	"testing"

	"github.com/kamino-dev/kamino/internal/cloud"
	provider "github.com/kamino-dev/kamino/internal/cloud/azure"
)

// TestRenewedCredentialIsUsed changes azure.json under a running provider, as the kubelet does with a Secret.
func TestRenewedCredentialIsUsed(t *testing.T) {
	w := newCloudEnv(t, options{})
	outdated := map[string]any{"aadClientId": client, "aadClientSecret": rand.Text()}
	path := w.clusterFile(outdated)
	p := w.load(provider.LoadOptions{AzureJSON: path, Getenv: empty})
	ask := func() error {
		_, err := p.Pool(t.Context(), w.pool)
		return err
	}
	w.wantError(ask(), cloud.Unauthenticated, "AADSTS7000215")

	// The file is written in two steps.
	whole, err := os.ReadFile(w.clusterFile(map[string]any{"aadClientId": client, "aadClientSecret": w.secret}))
	w.must(err)
	w.must(os.WriteFile(path, whole[:len(whole)/2], 0o600))
	w.wantError(ask(), cloud.Unauthenticated, "AADSTS7000215", path+" is not an azure.json")
	w.must(os.WriteFile(path, whole, 0o600))
	w.must(ask())
	w.must(ask())

	// An old token is valid for an hour, but is not used after the change.
	old, err := os.ReadFile(w.clusterFile(outdated))
	w.must(err)
	w.must(os.WriteFile(path, old, 0o600))
	w.wantError(ask(), cloud.Unauthenticated, "AADSTS7000215")
	w.must(os.Remove(path))
	w.must(os.WriteFile(path, whole, 0o600))
	w.must(ask())
}
