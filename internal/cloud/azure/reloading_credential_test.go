package azure

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
)

// echoCredential is a credential whose token is its own content, if the content contains "good".
type echoCredential string

func (s echoCredential) GetToken(context.Context, policy.TokenRequestOptions) (azcore.AccessToken, error) {
	if !strings.Contains(string(s), "good") {
		return azcore.AccessToken{}, errors.New("not accepted")
	}
	return azcore.AccessToken{Token: string(s)}, nil
}

// TestReloadCredentialFiles has a credential of two files: azure.json names a certificate or a federated token.
func TestReloadCredentialFiles(t *testing.T) {
	files := map[string]string{"azure.json": "cert-1", "cert-1": "good 1", "cert-2": "good 2"}
	made := 0
	read := func(path string) ([]byte, error) {
		text, found := files[path]
		if !found {
			return nil, fmt.Errorf("%s is not there", path)
		}
		return []byte(text), nil
	}
	r, err := newReloadingCredential(read, func(read func(string) ([]byte, error)) (azcore.TokenCredential, error) {
		made++
		named, err := read("azure.json")
		if err != nil {
			return nil, err
		}
		content, err := read(string(named))
		return echoCredential(content), err
	})
	if err != nil {
		t.Fatal(err)
	}
	wants := func(want string, times int) {
		t.Helper()
		token, err := r.GetToken(t.Context(), policy.TokenRequestOptions{})
		if err != nil || token.Token != want || made != times {
			t.Errorf("token %q, %v, made %d times; want %q, made %d times", token.Token, err, made, want, times)
		}
	}
	wants("good 1", 1)
	wants("good 1", 1)
	files["cert-1"] = "good, renewed"
	wants("good, renewed", 2)
	files["azure.json"] = "cert-2"
	wants("good 2", 3)
	files["cert-1"] = "of no concern any more"
	wants("good 2", 3)

	// An invalid credential is tried once, and the previous credential stays in use.
	files["azure.json"] = "cert-3"
	wants("good 2", 4)
	wants("good 2", 4)
	files["cert-3"] = "refused"
	if _, err := r.GetToken(t.Context(), policy.TokenRequestOptions{}); err == nil || made != 5 {
		t.Errorf("%v, made %d times", err, made)
	}
	files["cert-3"] = "good 3"
	wants("good 3", 6)
	delete(files, "azure.json")
	wants("good 3", 7)
}
