package docs

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"

	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/cloud/aws"
	"github.com/kamino-dev/kamino/internal/cloud/capi"
	"github.com/kamino-dev/kamino/internal/cloud/karpenter"
	"github.com/kamino-dev/kamino/internal/cloud/registry"
)

const (
	permissionsPage = "reference/permissions.md"
	judgedRights    = "../sandbox/judge/published.json"
)

// grants are the generated files about permissions, by path.
func grants(t *testing.T) map[string]string {
	t.Helper()
	files := map[string]string{permissionsPage: permissions(t), judgedRights: judged(t)}
	for name, policy := range map[string]func(powers ...string) ([]byte, error){"aws-policy": aws.Describe().Grant, "aws-policy-by-tags": aws.PolicyByTags} {
		for suffix, powers := range map[string][]string{"": nil, "-in-place": {cloud.ForInPlace}, "-rebuild": {cloud.ForRebuild}, "-warm-pool": {cloud.ForWarmPool}} {
			text, err := policy(powers...)
			if err != nil {
				t.Fatal(err)
			}
			files["reference/"+name+suffix+".json"] = string(text) + "\n"
		}
	}
	return files
}

// permissions lists the actions of each cloud, and the rights in the management cluster of Cluster API.
func permissions(t *testing.T) string {
	var b strings.Builder
	b.WriteString("<!-- Made by go generate ./docs from the actions that the clouds' packages declare. -->\n\n# Permissions in the clouds\n\n")
	b.WriteString("`kamino manifests --iam` prints these actions as a policy or a role; `--in-place` adds those of captures in\n" +
		"place, which stop their donor, `--rebuild` those of rebuilds, and `--warm-pool` those of warm pools. `kamino doctor`\n" +
		"names missing actions.\n")
	title := func(d cloud.Description) string {
		first, _, _ := strings.Cut(strings.TrimPrefix(page(t, "reference/"+d.Name+".md"), "# "), "\n")
		return first
	}
	for _, d := range registry.All() {
		fmt.Fprintf(&b, "\n## %s\n\n[How to grant them](%s.md#permissions).\n", title(d), d.Name)
		all := joined(d.Uses)
		for i, use := range all {
			if i == 0 || use.Where != all[i-1].Where {
				fmt.Fprintf(&b, "\n%s:\n\n<!-- actions: -->\n| for | actions |\n|---|---|\n", cmp.Or(use.Where, "In the scope of the pools"))
			}
			fmt.Fprintf(&b, "| %s | `%s` |\n", use.For, strings.Join(use.Actions, "`, `"))
		}
	}
	b.WriteString("\n## Cluster API\n\n[Which account needs them](cluster-api.md#rights).\n")
	for _, d := range registry.All() {
		fmt.Fprintf(&b, "\nIn the management cluster, for machines on %s:\n\n| resource | verbs |\n|---|---|\n", title(d))
		for _, rule := range management(t, d) {
			fmt.Fprintf(&b, "| `%s.%s` | %s |\n", rule.Resources[0], rule.APIGroups[0], strings.Join(rule.Verbs, ", "))
		}
	}
	b.WriteString("\n## Karpenter\n\n[How to grant them](karpenter.md#permissions).\n\n| resource | verbs |\n|---|---|\n")
	for _, rule := range karpenter.Rules() {
		fmt.Fprintf(&b, "| `%s.%s` | %s |\n", rule.Resources[0], rule.APIGroups[0], strings.Join(rule.Verbs, ", "))
	}
	return b.String()
}

// joined joins neighbors with the same purpose and scope.
func joined(all []cloud.Use) (rows []cloud.Use) {
	for _, u := range all {
		if last := len(rows) - 1; last >= 0 && rows[last].For == u.For && rows[last].Where == u.Where {
			rows[last].Actions = append(rows[last].Actions, u.Actions...)
		} else {
			rows = append(rows, u)
		}
	}
	return rows
}

func management(t *testing.T, d cloud.Description) []rbacv1.PolicyRule {
	t.Helper()
	rules, err := capi.Rules(d)
	if err != nil {
		t.Fatal(err)
	}
	return rules
}

// judgedRule is a rule of a role. Rules in a namespace are for all namespaces of Kamino.
type judgedRule struct {
	rbacv1.PolicyRule
	Namespaced bool `json:"namespaced,omitempty"`
}

// judged has the rights that the judge of the sandbox accepts: those of policies, roles and the chart.
func judged(t *testing.T) string {
	t.Helper()
	actions := map[string]bool{}
	known := struct {
		Published         []string
		Management, Rules []judgedRule
	}{}
	for _, d := range registry.All() {
		for _, use := range d.Uses {
			for _, a := range use.Actions {
				actions[a] = true
			}
		}
		for _, rule := range management(t, d) {
			known.Management = append(known.Management, judgedRule{PolicyRule: rule})
		}
	}
	known.Published = slices.Sorted(maps.Keys(actions))
	var roles struct{ Cluster, Force, TrialNodes, Karpenter, Viewer, Operator, Namespace, Pods, Generalize []judgedRule }
	if err := yaml.Unmarshal([]byte(page(t, "../charts/kamino/files/rules.yaml")), &roles); err != nil {
		t.Fatal(err)
	}
	known.Rules = slices.Concat(roles.Cluster, roles.Force, roles.TrialNodes, roles.Karpenter, roles.Viewer, roles.Operator)
	for _, rule := range slices.Concat(roles.Namespace, roles.Pods, roles.Generalize) {
		rule.Namespaced = true
		known.Rules = append(known.Rules, rule)
	}
	text, err := json.MarshalIndent(known, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(text) + "\n"
}

// removalActions end a member of a pool, or change the size of a pool.
var removalActions = regexp.MustCompile(`:TerminateInstanceInAutoScalingGroup$|:SetDesiredCapacity$|/virtualMachines/(delete|deallocate/action)$`)

// powers are the actions on running members of a pool, or on a warm pool, by the feature that needs them.
var powers = map[string]*regexp.Regexp{
	cloud.ForInPlace: regexp.MustCompile(`:DescribeInstanceAttribute$|:(Stop|Start)Instances$|:(Enter|Exit)Standby$|:SetInstanceProtection$|` +
		`/(powerOff|start)/action$|virtualMachineScaleSets/virtualMachines/write$`),
	cloud.ForRebuild:  regexp.MustCompile(`ReplaceRootVolumeTasks?$|/manualUpgrade/action$|/reimage/action$`),
	cloud.ForWarmPool: regexp.MustCompile(`:(Describe|Put)WarmPool$`),
}

// TestGrants: without its flag, a power has no action, and Kamino removes no member of a pool and resizes no pool at all.
func TestGrants(t *testing.T) {
	for _, d := range registry.All() {
		granted := func(powers ...string) (actions []string) {
			text, err := d.Grant(powers...)
			if err != nil || !json.Valid(text) {
				t.Fatalf("%s: %v\n%s", d.Name, err, text)
			}
			for _, a := range regexp.MustCompile(`"([A-Za-z0-9.]+[:/][A-Za-z/]+)"`).FindAllStringSubmatch(string(text), -1) {
				actions = append(actions, a[1])
			}
			return actions
		}
		always := granted()
		for power, of := range powers {
			if power == cloud.ForWarmPool && d.Name != "aws" {
				continue
			}
			with := granted(power)
			only := slices.DeleteFunc(slices.Clone(with), func(a string) bool { return slices.Contains(always, a) })
			if len(always) < 20 || len(only) < 2 || slices.ContainsFunc(only, func(a string) bool { return !of.MatchString(a) }) {
				t.Errorf("%s: %s adds %v to %d actions", d.Name, power, only, len(always))
			}
			if slices.ContainsFunc(always, of.MatchString) || slices.ContainsFunc(with, removalActions.MatchString) {
				t.Errorf("%s: Kamino may do %v, and for %s %v", d.Name, always, power, with)
			}
		}
	}
}
