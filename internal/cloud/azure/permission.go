package azure

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/authorization/armauthorization/v2"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// grant holds the actions of a role assignment. Grants add up: a grant's notActions do not limit another grant.
type grant struct {
	actions, notActions []string
}

func (g grant) allows(action string) bool {
	return matchesAny(g.actions, action) && !matchesAny(g.notActions, action)
}

func allowed(granted []grant, action string) bool {
	return slices.ContainsFunc(granted, func(g grant) bool { return g.allows(action) })
}

// missingActions returns the actions that no grant allows.
func missingActions(granted []grant, actions []string) []string {
	return slices.DeleteFunc(slices.Clone(actions), func(action string) bool { return allowed(granted, action) })
}

// missing returns the refusal for actions that no grant allows; nil if all actions are allowed.
func missing(s scaleSet, granted []grant, actions []string) *cloud.Refusal {
	lacks := missingActions(granted, actions)
	if len(lacks) == 0 {
		return nil
	}
	remedy := "assign a role with the actions at that scope (a new role assignment needs some minutes)"
	if slices.ContainsFunc(lacks, func(action string) bool { return slices.Contains(inPlaceActions, action) }) {
		remedy = cloud.PowerRemedy("azure", cloud.ForInPlace)
	}
	refusal := cloud.Refuse(cloud.PermissionMissing, fmt.Sprintf("the credential may not do %s on %s", strings.Join(lacks, ", "), s.scope()), remedy)
	return &refusal
}

func matchesAny(patterns []string, action string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool { return matches(strings.ToLower(pattern), strings.ToLower(action)) })
}

// matches reports whether an action matches a pattern. "*" matches any text, including slashes.
func matches(pattern, action string) bool {
	is, _ := regexp.MatchString("^"+strings.ReplaceAll(regexp.QuoteMeta(pattern), `\*`, ".*")+"$", action) // the pattern is valid
	return is
}

// listPermissions reads the credential's permissions in a resource group.
func listPermissions(ctx context.Context, client *armauthorization.PermissionsClient, group string) ([]grant, error) {
	var out []grant
	pager := client.NewListForResourceGroupPager(group, nil)
	for pager.More() {
		page, err := pager.NextPage(ctx)
		if err != nil {
			return nil, err
		}
		for _, permission := range page.Value {
			if permission != nil {
				out = append(out, grant{actions: texts(permission.Actions), notActions: texts(permission.NotActions)})
			}
		}
	}
	return out, nil
}

func texts(pointers []*string) []string {
	out := make([]string, 0, len(pointers))
	for _, pointer := range pointers {
		out = append(out, value(pointer))
	}
	return out
}
