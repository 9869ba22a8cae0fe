package azure

import (
	"context"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/arm"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v8"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// locksVersion is the API version of management locks.
const locksVersion = "2020-05-01"

// lockList holds the used fields of Resource Manager's list of locks.
type lockList struct {
	Value []struct {
		ID         string `json:"id"`
		Name       string `json:"name"`
		Properties struct {
			Level string `json:"level"`
		} `json:"properties"`
	} `json:"value"`
}

// refuseLocksOn returns management locks on the scope or above, because a lock of any level prevents the deletion of what. Sources:
// Resource Manager, Management Locks, List By Scope; "Lock your resources to protect your infrastructure".
func (p *PoolProvider) refuseLocksOn(ctx context.Context, scope, what string) ([]cloud.Refusal, error) {
	ref := text(what)
	client, err := arm.NewClient("kamino", "v1.0.0", p.credential, p.options)
	if err != nil {
		return nil, fail("connect to", ref, err)
	}
	req, err := runtime.NewRequest(ctx, http.MethodGet, runtime.JoinPaths(client.Endpoint(), scope, "/providers/Microsoft.Authorization/locks"))
	if err != nil {
		return nil, fail("list locks of", ref, err)
	}
	query := req.Raw().URL.Query()
	query.Set("api-version", locksVersion)
	query.Set("$filter", "atScope()")
	req.Raw().URL.RawQuery = query.Encode()
	answer, err := client.Pipeline().Do(req)
	if err == nil && !runtime.HasStatusCode(answer, http.StatusOK) {
		err = runtime.NewResponseError(answer)
	}
	var list lockList
	if err == nil {
		err = runtime.UnmarshalAsJSON(answer, &list)
	}
	if err := fail("list locks of", ref, err); cloud.Is(err, cloud.Denied) || cloud.Is(err, cloud.NotFound) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	var found []cloud.Refusal
	for _, lock := range list.Value {
		on, _, _ := strings.Cut(lock.ID, "/providers/Microsoft.Authorization/")
		found = append(found, cloud.Refuse(cloud.DonorProtected,
			fmt.Sprintf("lock %s (%s) on %s prevents the deletion of %s", lock.Name, lock.Properties.Level, on, ref),
			"remove the lock, or choose a pool without a lock"))
	}
	return found, nil
}

// sizeParts matches a VM size: family, number of cores, rest of the family. Standard_D4s_v5 belongs to standardDSv5Family
// and has 4 cores. Source: Azure, "Virtual machine size naming conventions". Other sizes are not checked.
var sizeParts = regexp.MustCompile(`^Standard_([A-Za-z]+)(\d+)([a-z]*)(?:_(v\d+))?$`)

// wantedOf returns the quotas that an instance of a size uses, by name in lower case.
func wantedOf(size string) map[string]int64 {
	wanted := map[string]int64{"virtualmachines": 1}
	if m := sizeParts.FindStringSubmatch(size); m != nil {
		if cores, err := strconv.ParseInt(m[2], 10, 32); err == nil {
			wanted["cores"], wanted[strings.ToLower("standard"+m[1]+m[3]+m[4]+"Family")] = cores, cores
		}
	}
	return wanted
}

// refuseCores checks the region's quotas of cores and VMs for another instance of the pool's size. apart adds a scale
// set.
func (p *PoolProvider) refuseCores(ctx context.Context, s scaleSet, model armcompute.VirtualMachineScaleSet, apart bool,
	remedy string) ([]cloud.Refusal, error) {
	size := ""
	if model.SKU != nil {
		size = value(model.SKU.Name)
	}
	wanted := wantedOf(size)
	if apart {
		wanted["virtualmachinescalesets"] = 1
	}
	clients, err := p.in(s)
	if err != nil {
		return nil, err
	}
	var found []cloud.Refusal
	location := value(model.Location)
	pager := clients.usages.NewListPager(location, nil)
	for pager.More() {
		page, err := pager.NextPage(ctx)
		if err != nil {
			err = fail("list quotas of", text("region "+location), err)
			if cloud.Is(err, cloud.Denied) || cloud.Is(err, cloud.NotFound) || cloud.Is(err, cloud.Invalid) {
				return nil, nil
			}
			return nil, err
		}
		for _, usage := range page.Value {
			if usage == nil || usage.Name == nil || usage.Limit == nil {
				continue
			}
			name, used := value(usage.Name.Value), int64(value(usage.CurrentValue))
			if more := wanted[strings.ToLower(name)]; more > 0 && used+more > *usage.Limit {
				found = append(found, cloud.Refuse(string(cloud.QuotaExceeded), fmt.Sprintf(
					"the quota %s of region %s is too small for another %s of %s (%d of %d used, %d more needed)",
					name, location, size, s, used, *usage.Limit, more), remedy))
			}
		}
	}
	return found, nil
}
