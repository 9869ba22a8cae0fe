package cli

import (
	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
)

// impersonation acts as another user in the cluster, as in kubectl. The credential for the cloud does not change.
type impersonation struct {
	user   string
	groups []string
	uid    string
}

func (i *impersonation) bind(flags *pflag.FlagSet) {
	flags.StringVar(&i.user, "as", "", "`user` to impersonate in the cluster, as with kubectl; for a service account: system:serviceaccount:NAMESPACE:NAME")
	flags.StringArrayVar(&i.groups, "as-group", nil, "`group` to impersonate with --as; repeatable")
	flags.StringVar(&i.uid, "as-uid", "", "`UID` to impersonate with --as")
}

// check refuses flags that the API server would misread.
func (i *impersonation) check() error {
	if i.user == "" && (i.uid != "" || len(i.groups) > 0) {
		return usagef("--as-group and --as-uid need a user: add --as USER")
	}
	return nil
}

// config returns the settings for the clients.
func (i *impersonation) config() rest.ImpersonationConfig {
	return rest.ImpersonationConfig{UserName: i.user, UID: i.uid, Groups: i.groups}
}
