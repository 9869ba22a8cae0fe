package azure

import (
	"bytes"
	"context"
	"crypto/sha256"
	"sync"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
)

// reloadingCredential is a credential from files: azure.json, a certificate, a federated token. When the files change, renewed makes
// a new credential, so that a new Secret needs no restart. An unusable file, for example half written, changes nothing.
type reloadingCredential struct {
	// load makes the credential and reads files with read.
	load func(read func(string) ([]byte, error)) (azcore.TokenCredential, error)
	read func(string) ([]byte, error)

	mu      sync.Mutex
	current azcore.TokenCredential
	// digests of current's files by path. refused are digests of unusable files, and reason is the error.
	digests map[string][]byte
	refused map[string][]byte
	reason  error
}

// newReloadingCredential makes the first credential, which must succeed.
func newReloadingCredential(read func(string) ([]byte, error),
	load func(read func(string) ([]byte, error)) (azcore.TokenCredential, error)) (*reloadingCredential, error) {
	r := &reloadingCredential{load: load, read: read}
	credential, digests, err := r.make()
	r.current, r.digests = credential, digests
	return r, err
}

// make makes the credential from the current files, and returns the digests.
func (r *reloadingCredential) make() (azcore.TokenCredential, map[string][]byte, error) {
	digests := map[string][]byte{}
	credential, err := r.load(func(path string) ([]byte, error) {
		data, err := r.read(path)
		digests[path] = digest(data, err)
		return data, err
	})
	return credential, digests, err
}

// digest returns the digest of a file's content; nil if unreadable.
func digest(data []byte, err error) []byte {
	if err != nil {
		return nil
	}
	sum := sha256.Sum256(data)
	return sum[:]
}

// renew loads changed files, and reports whether the credential changed.
func (r *reloadingCredential) renew() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.same(r.digests) {
		r.refused, r.reason = nil, nil
		return false
	}
	if r.refused != nil && r.same(r.refused) {
		return false
	}
	credential, digests, err := r.make()
	if err != nil {
		r.refused, r.reason = digests, err
		return false
	}
	r.current, r.digests, r.refused, r.reason = credential, digests, nil, nil
	return true
}

// same reports whether the files are unchanged.
func (r *reloadingCredential) same(digests map[string][]byte) bool {
	for path, before := range digests {
		if !bytes.Equal(digest(r.read(path)), before) {
			return false
		}
	}
	return true
}

// unusable is the refusal of a credential while a newer credential is unusable.
type unusable struct {
	error
	reason error
}

func (u *unusable) Unwrap() error { return u.error }

// GetToken implements azcore.TokenCredential.
func (r *reloadingCredential) GetToken(ctx context.Context, options policy.TokenRequestOptions) (azcore.AccessToken, error) {
	r.renew()
	r.mu.Lock()
	credential, reason := r.current, r.reason
	r.mu.Unlock()
	token, err := credential.GetToken(ctx, options)
	if err != nil && reason != nil {
		return token, &unusable{err, reason}
	}
	return token, err
}
