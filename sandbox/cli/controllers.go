package cli

import (
	"fmt"
	"path/filepath"

	"github.com/spf13/pflag"

	"github.com/kamino-dev/kamino/sandbox/pool"
)

// controllers holds the flags for nodes that the controllers of others build.
type controllers struct {
	// flag chooses them, who names them, and target of the Makefile makes them in a directory with this pattern, beside the program.
	flag, who, target, pattern string
	wanted                     bool
	binaries                   string
}

func clusterAPI() *controllers {
	return &controllers{flag: "capi", who: "Cluster API", target: "clusterapi", pattern: "clusterapi-*[0-9]"}
}

func karpenter() *controllers {
	return &controllers{flag: "karpenter", who: "Karpenter", target: "karpenter-aws", pattern: "karpenter-aws-*[0-9]"}
}

// bind adds the flags. Which pools they build is for the help.
func (c *controllers) bind(flags *pflag.FlagSet, which string) {
	if me, err := self(); err == nil {
		// The last name is the newest version: names sort well enough by version.
		if found, _ := filepath.Glob(filepath.Join(filepath.Dir(me), c.pattern)); len(found) > 0 {
			c.binaries = found[len(found)-1]
		}
	}
	flags.BoolVar(&c.wanted, c.flag, false, "let "+c.who+"'s own controllers build the nodes; the default cloud is AWS, "+which)
	flags.StringVar(&c.binaries, c.flag+"-binaries", c.binaries,
		fmt.Sprintf("the `directory` with the controllers of %s, made by \"make %s\"", c.who, c.target))
}

// chosen is the directory with the controllers; empty without the flag. With the flag, the default cloud is AWS.
func (c *controllers) chosen(cloud *pool.Cloud) (string, error) {
	switch {
	case !c.wanted:
		return "", nil
	case c.binaries == "":
		return "", usageError{fmt.Errorf(
			"--%s needs the controllers of %s: run `make %s`, or pass their directory with --%[1]s-binaries", c.flag, c.who, c.target)}
	case *cloud == "":
		*cloud = pool.AWS
	}
	return c.binaries, nil
}
