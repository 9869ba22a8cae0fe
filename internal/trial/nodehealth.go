package trial

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/kamino-dev/kamino/internal/node/nodestate"
)

// health matches conditions that are good when they are True. Sources: those of nodestate.ReportsProblem.
var health = regexp.MustCompile(`(Ready|Healthy|Available|Enforced|Enabled|Active|OK|Ok|Synced|Configured|Initialized|Installed|Connected|Established|Succeeded)$`)

// conditions compares conditions that report a problem, and conditions of health that only this node lacks. A condition of unknown
// meaning is a disagreement.
func (c *comparison) conditions() {
	for _, condition := range c.node.Node.Status.Conditions {
		kind := string(condition.Type)
		isProblem := nodestate.ReportsProblem(condition.Type)
		isHealth := !isProblem && health.MatchString(kind)
		isTrue := condition.Status == corev1.ConditionTrue
		if condition.Type == corev1.NodeReady || isTrue == isHealth {
			continue
		}
		where := "True on no other node"
		if isHealth {
			where = string(condition.Status) + ", and True on other nodes"
		} else if !isTrue {
			continue
		}
		message := fmt.Sprintf("condition %s is %s", kind, where)
		if why := strings.Trim(condition.Reason+": "+condition.Message, ": "); why != "" {
			message += " (" + why + ")"
		}
		shares := func(o Peer) bool {
			i := slices.IndexFunc(o.Node.Status.Conditions, func(n corev1.NodeCondition) bool { return n.Type == condition.Type })
			if i < 0 {
				return isHealth
			}
			return (o.Node.Status.Conditions[i].Status == corev1.ConditionTrue) == isTrue
		}
		if !isProblem && !isHealth {
			if !slices.ContainsFunc(c.others, shares) && !c.ignores("condition/"+kind) {
				c.Disagreements = append(c.Disagreements, Difference{"condition/" + kind, message})
			}
			continue
		}
		c.add("condition/"+kind, message, shares)
	}
}

// runtime compares what the container runtime offers, and the age of runtime and system. A patch may be on some nodes only, so only the
// first two numbers count.
func (c *comparison) runtime() {
	var all []string
	for _, o := range c.others {
		all = append(all, offers(o)...)
	}
	slices.Sort(all)
	for _, one := range slices.Compact(all) {
		if !slices.Contains(offers(c.node), one) {
			c.add("runtime/"+one, fmt.Sprintf("the container runtime does not offer %s, a handler or feature of other nodes", one),
				func(o Peer) bool { return !slices.Contains(offers(o), one) })
		}
	}
	for name, of := range map[string]func(corev1.NodeSystemInfo) string{
		"runtime": func(i corev1.NodeSystemInfo) string { return i.ContainerRuntimeVersion },
		"os":      func(i corev1.NodeSystemInfo) string { return i.OSImage },
	} {
		text := of(c.node.Node.Status.NodeInfo)
		product, here := release(text)
		if len(here) == 0 {
			continue
		}
		c.add(name, fmt.Sprintf("%s is older than %s on other nodes", text, of(c.others[0].Node.Status.NodeInfo)), func(o Peer) bool {
			other, there := release(of(o.Node.Status.NodeInfo))
			same := min(len(here), len(there))
			return other != product || slices.Compare(here[:same], there[:same]) >= 0
		})
	}
}

// offers are the handlers of a node's runtime with their features.
func offers(p Peer) (all []string) {
	add := func(is *bool, name string) {
		if is != nil && *is {
			all = append(all, name)
		}
	}
	for _, h := range p.Node.Status.RuntimeHandlers {
		name := cmp.Or(h.Name, "default")
		all = append(all, name)
		if f := h.Features; f != nil {
			add(f.RecursiveReadOnlyMounts, name+"/recursiveReadOnlyMounts")
			add(f.UserNamespaces, name+"/userNamespaces")
		}
	}
	if f := p.Node.Status.Features; f != nil {
		add(f.SupplementalGroupsPolicy, "supplementalGroupsPolicy")
	}
	return all
}

var digits = regexp.MustCompile(`[0-9]+`)

// release splits a text such as containerd://1.7.25 into the product and the first two numbers of its version.
func release(text string) (product string, numbers []int) {
	at := digits.FindStringIndex(text)
	if at == nil {
		return text, nil
	}
	for _, one := range digits.FindAllString(strings.Fields(text[at[0]:])[0], 2) {
		n, _ := strconv.Atoi(one)
		numbers = append(numbers, n)
	}
	return text[:at[0]], numbers
}
