package aws

import (
	"context"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// ImageProvider implements cloud.ImageProvider.
type ImageProvider struct {
	*account
	copier
}

// PoolProvider implements cloud.PoolProvider for Auto Scaling groups with launch templates.
type PoolProvider struct {
	*account
	workshopBuilder
	// capa is true if Cluster API's provider writes the launch templates. Kamino then writes no launch template.
	capa bool
}

// New makes both halves of AWS with a common account. New makes no request.
func New(c Config) (*ImageProvider, *PoolProvider) {
	a := newAccount(c)
	return &ImageProvider{a, copier{a, &begun[cloud.CopySpec]{}}}, newPoolProvider(a, false)
}

func newPoolProvider(a *account, capa bool) *PoolProvider {
	return &PoolProvider{account: a, workshopBuilder: workshopBuilder{a, launches{a, &begun[begunInstance]{}}}, capa: capa}
}

// Groups implements cloud.ImageProvider for the groups that Cluster API's provider makes for AWSMachinePools.
func (p *ImageProvider) Groups() cloud.PoolProvider {
	return cloud.RecipesOf(newPoolProvider(p.account, true))
}

// recipe reads the recipe of a group.
func (p *PoolProvider) recipe(ctx context.Context, ref group) (recipe, error) {
	r, err := p.account.recipe(ctx, ref)
	r.capa = p.capa
	return r, err
}
