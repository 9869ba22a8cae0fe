package azure

import (
	"bytes"
	"context"
	"crypto/sha256"
	"sync"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
)

// renewed is a credential that was described in files: azure.json, a certificate, a federated token. It is made anew
// when what they hold has changed, so that a renewed Secret counts without a restart. A file that can't be used, such
// as one that is half written, changes nothing until it can.
type renewed struct {
	// load makes the credential, and reads what it needs by the function that it is given.
	load func(read func(string) ([]byte, error)) (azcore.TokenCredential, error)
	read func(string) ([]byte, error)

	mu      sync.Mutex
	current azcore.TokenCredential
	// digests of the files that current was made of, by path, and of those that could not be used, with the reason.
	digests map[string][]byte
	refused map[string][]byte
	reason  error
}

// newRenewed makes the credential for the first time, which must succeed.
func newRenewed(read func(string) ([]byte, error), load func(read func(string) ([]byte, error)) (azcore.TokenCredential, error)) (*renewed, error) {
	r := &renewed{load: load, read: read}
	credential, digests, err := r.make()
	r.current, r.digests = credential, digests
	return r, err
}

// make makes the credential of what the files hold now, and tells what that was.
func (r *renewed) make() (azcore.TokenCredential, map[string][]byte, error) {
	digests := map[string][]byte{}
	credential, err := r.load(func(path string) ([]byte, error) {
		data, err := r.read(path)
		digests[path] = digest(data, err)
		return data, err
	})
	return credential, digests, err
}

// digest of a file's content; nil for one that can't be read.
func digest(data []byte, err error) []byte {
	if err != nil {
		return nil
	}
	sum := sha256.Sum256(data)
	return sum[:]
}

// renew takes over what the files hold now, and tells whether that is another credential than before.
func (r *renewed) renew() bool {
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

// same tells whether the files hold what they held.
func (r *renewed) same(digests map[string][]byte) bool {
	for path, before := range digests {
		if !bytes.Equal(digest(r.read(path)), before) {
			return false
		}
	}
	return true
}

// unusable is the refusal of a credential beside which a newer one is described, that can't be used.
type unusable struct {
	error
	reason error
}

func (u *unusable) Unwrap() error { return u.error }

// GetToken implements azcore.TokenCredential.
func (r *renewed) GetToken(ctx context.Context, options policy.TokenRequestOptions) (azcore.AccessToken, error) {
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
