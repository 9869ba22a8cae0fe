// Package user selects the user of the cluster's clients.
package user

import (
	"errors"

	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
)

// Impersonation acts as another user in the cluster, as in kubectl. The credential for the cloud does not change.
type Impersonation struct {
	user   string
	groups []string
	uid    string
}

// Bind adds the flags.
func (i *Impersonation) Bind(flags *pflag.FlagSet) {
	flags.StringVar(&i.user, "as", "", "`user` to impersonate in the cluster, as with kubectl; for a service account: system:serviceaccount:NAMESPACE:NAME")
	flags.StringArrayVar(&i.groups, "as-group", nil, "`group` to impersonate with --as; repeatable")
	flags.StringVar(&i.uid, "as-uid", "", "`UID` to impersonate with --as")
}

// Check refuses flags that the API server would misread.
func (i *Impersonation) Check() error {
	if i.user == "" && (i.uid != "" || len(i.groups) > 0) {
		return errors.New("--as-group and --as-uid need a user: add --as USER")
	}
	return nil
}

// Config returns the settings for the clients.
func (i *Impersonation) Config() rest.ImpersonationConfig {
	return rest.ImpersonationConfig{UserName: i.user, UID: i.uid, Groups: i.groups}
}
