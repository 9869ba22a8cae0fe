package azure

import (
	"net/http"
	"strings"
	"testing"

	"github.com/kamino-dev/kamino/sandbox/fault"
)

const (
	scaleSetOfTest = "/subscriptions/" + testSubscription + "/resourceGroups/" + testGroup + "/providers/Microsoft.Compute/virtualMachineScaleSets/" + testPool
	lockVersion    = "?api-version=2020-05-01"
)

// lock creates a lock on a scope.
func (c *testCloud) lock(t *testing.T, scope, level string) {
	t.Helper()
	resp, body := c.raw(t, c.token(t), http.MethodPut, scope+"/providers/Microsoft.Authorization/locks/keep"+lockVersion,
		`{"properties":{"level":"`+level+`"}}`)
	if resp.StatusCode != http.StatusCreated {
		t.Fatalf("the lock was answered with %d %v", resp.StatusCode, body)
	}
}

// locksOf returns the scopes of the locks in a scope's list.
func (c *testCloud) locksOf(t *testing.T, scope, filter string) []string {
	t.Helper()
	_, body := c.raw(t, c.token(t), http.MethodGet, scope+"/providers/Microsoft.Authorization/locks"+lockVersion+filter, "")
	var out []string
	for _, l := range list(body, "value") {
		out = append(out, text(l.(object), "id"))
	}
	return out
}

func (c *testCloud) deleteInstance(t *testing.T, number string) error {
	t.Helper()
	poller, err := c.factory.NewVirtualMachineScaleSetVMsClient().BeginDelete(t.Context(), testGroup, testPool, number, nil)
	_, err = finish(t.Context(), poller, err)
	return err
}

func TestCanNotDeleteLock(t *testing.T) {
	for name, scope := range map[string]string{
		"the scale set":      scaleSetOfTest,
		"the resource group": "/subscriptions/" + testSubscription + "/resourceGroups/" + testGroup,
		// As `az lock create --resource-type` writes the scope of a resource without a parent.
		"a double slash": strings.Replace(scaleSetOfTest, "Microsoft.Compute/", "Microsoft.Compute//", 1),
		"the instance":   strings.ToUpper(scaleSetOfTest) + "/virtualMachines/0",
	} {
		t.Run(name, func(t *testing.T) {
			c := newCloud(t, nil)
			c.pool(t, 2, nil)
			c.lock(t, scope, lockAgainstDelete)
			err := c.deleteInstance(t, "0")
			if wantCode(t, err, http.StatusConflict, "ScopeLocked"); !strings.Contains(err.Error(), "'"+strings.ReplaceAll(scope, "//", "/")+"'") {
				t.Errorf("the refusal names no lock: %v", err)
			}
			if got := *c.scaleSet(t).SKU.Capacity; got != 2 || c.fleet.Size() != 2 {
				t.Errorf("capacity is %d with %d machines, want 2 and 2", got, c.fleet.Size())
			}
			if err := c.patch(t, capacityOf(3)); err != nil {
				t.Errorf("what may not be deleted cannot grow: %v", err)
			}
			c.raw(t, c.token(t), http.MethodDelete, scope+"/providers/Microsoft.Authorization/locks/keep"+lockVersion, "")
			if err := c.deleteInstance(t, "0"); err != nil {
				t.Errorf("the lock is gone and still keeps it: %v", err)
			}
		})
	}
}

func TestReadOnlyLock(t *testing.T) {
	c := newCloud(t, nil)
	c.pool(t, 1, nil)
	c.lock(t, scaleSetOfTest, lockReadOnly)
	wantCode(t, c.patch(t, capacityOf(2)), http.StatusConflict, "ScopeLocked")
	if got := *c.scaleSet(t).SKU.Capacity; got != 1 {
		t.Errorf("capacity is %d, want 1", got)
	}
}

// TestLockScope: a scale set is not locked if only the begin of its name equals the locked name.
func TestLockScope(t *testing.T) {
	c := newCloud(t, nil)
	c.pool(t, 1, nil)
	c.lock(t, strings.TrimSuffix(scaleSetOfTest, "s"), lockAgainstDelete)
	if err := c.deleteInstance(t, "0"); err != nil {
		t.Error(err)
	}
}

func TestLocksAreListedWithThoseAbove(t *testing.T) {
	c := newCloud(t, nil)
	group := "/subscriptions/" + testSubscription + "/resourceGroups/" + testGroup
	c.lock(t, group, lockAgainstDelete)
	c.lock(t, scaleSetOfTest, lockAgainstDelete)
	for scope, want := range map[string]map[string]int{
		group:                                 {"": 2, "&$filter=atScope()": 1},
		scaleSetOfTest:                        {"": 2, "&$filter=atScope()": 2},
		scaleSetOfTest + "/virtualMachines/0": {"": 2},
		"/subscriptions/" + testSubscription + "/resourceGroups/other": {"": 0},
	} {
		for filter, n := range want {
			if got := c.locksOf(t, scope, filter); len(got) != n {
				t.Errorf("%s%s is locked by %v, want %d", scope, filter, got, n)
			}
		}
	}
}

// TestFailedDeletionRestoresCapacity: Azure refuses some deletions only on their way.
func TestFailedDeletionRestoresCapacity(t *testing.T) {
	c := newCloud(t, nil)
	c.pool(t, 2, nil)
	c.order(t, fault.Fault{Resource: "instance", Operation: "delete", Long: true, Code: "AllocationFailed", Count: 1})
	if err := c.deleteInstance(t, "0"); err == nil {
		t.Error("the deletion did not fail")
	}
	if got := *c.scaleSet(t).SKU.Capacity; got != 2 || len(c.instances(t)) != 2 {
		t.Errorf("capacity is %d with %d instances, want 2 and 2", got, len(c.instances(t)))
	}
	if err := c.deleteInstance(t, "0"); err != nil {
		t.Fatal(err)
	}
	if got := *c.scaleSet(t).SKU.Capacity; got != 1 || c.fleet.Size() != 1 {
		t.Errorf("capacity is %d with %d machines, want 1 and 1", got, c.fleet.Size())
	}
}

func TestSizesHaveFamilies(t *testing.T) {
	for size, want := range map[string]string{
		"Standard_D2s_v5": "standardDSv5Family", "Standard_D4_v3": "standardDv3Family", "Standard_E8ds_v5": "standardEDSv5Family",
		"Standard_DS2_v2": "standardDSv2Family",
	} {
		if got := familyOf(size); got != want {
			t.Errorf("%s is of %s, want %s", size, got, want)
		}
	}
	c := newCloud(t, nil)
	c.pool(t, 2, nil)
	if err := c.Limit("standardDSv5Family", 5); err != nil {
		t.Fatal(err)
	}
	err := c.patch(t, capacityOf(3))
	if wantCode(t, err, http.StatusConflict, "OperationNotAllowed"); !strings.Contains(err.Error(), "standardDSv5Family") {
		t.Errorf("the refusal names another quota: %v", err)
	}
	if err := c.Limit("standardDSv5Family", -1); err != nil {
		t.Fatal(err)
	}
	if err := c.patch(t, capacityOf(3)); err != nil {
		t.Errorf("the limit is gone: %v", err)
	}
}
