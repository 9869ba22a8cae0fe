package admission

import "github.com/kamino-dev/kamino/internal/cloud"

// joining refuses a capture whose workshop could not join, because no bootstrap token is valid.
func joining(c *Case) ([]cloud.Refusal, error) {
	if c.Strayed() {
		return nil, nil
	}
	noToken, err := resultOf(c.NoToken, "whether new nodes can join")
	if err != nil || !noToken {
		return nil, err
	}
	return refuse(BootstrapTokenExpired, "create the token of the pool's recipe (kubeadm token create), then try again",
		"no bootstrap token of the cluster is valid (ConfigMap kube-public/cluster-info has no token signature), so new nodes of pool %s cannot join",
		c.PoolName), nil
}
