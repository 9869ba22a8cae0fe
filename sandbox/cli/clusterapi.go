package cli

import (
	"errors"
	"path/filepath"

	"github.com/spf13/pflag"

	"github.com/kamino-dev/kamino/sandbox/pool"
)

// clusterAPI holds the flags for nodes that Cluster API builds.
type clusterAPI struct {
	wanted   bool
	binaries string
}

func (c *clusterAPI) bind(flags *pflag.FlagSet) {
	if me, err := self(); err == nil {
		// The last name is the newest version: names sort well enough by version.
		if found, _ := filepath.Glob(filepath.Join(filepath.Dir(me), "clusterapi-*[0-9]")); len(found) > 0 {
			c.binaries = found[len(found)-1]
		}
	}
	flags.BoolVar(&c.wanted, "capi", false,
		"let Cluster API's own controllers build the nodes; the default cloud is AWS, the default kind of pool is MachineDeployment")
	flags.StringVar(&c.binaries, "capi-binaries", c.binaries, "the `directory` with the controllers of Cluster API, made by \"make clusterapi\"")
}

// chosen is the directory with the controllers; empty without --capi. With --capi, the default cloud is AWS.
func (c *clusterAPI) chosen(cloud *pool.Cloud) (string, error) {
	switch {
	case !c.wanted:
		return "", nil
	case c.binaries == "":
		return "", usageError{errors.New("--capi needs the controllers of Cluster API: run `make clusterapi`, or pass their directory with --capi-binaries")}
	case *cloud == "":
		*cloud = pool.AWS
	}
	return c.binaries, nil
}
