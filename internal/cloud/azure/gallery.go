package azure

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v8"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// text is a resource's description in errors.
type text string

func (t text) String() string { return string(t) }

// ensureDefinition starts what is missing before a version can be made: the gallery, then the definition.
// ready is false while one of them is still being made. What this process began to make itself is not
// compared with what is wanted. A definition that Azure failed to make is made again as it is.
func (p *ImageProvider) ensureDefinition(ctx context.Context, s scaleSet, mold cloud.ImageRequirements, snapshotID string) (ready bool, err error) {
	if p.known(p.defined, s.definitionID()) {
		return true, nil
	}
	clients, err := p.in(s)
	if err != nil {
		return false, err
	}
	if there, err := p.ensureGallery(ctx, clients, s, mold, snapshotID); err != nil || !there {
		return false, err
	}
	switch {
	case p.began(s.definitionID()):
		return false, nil // somebody else's step: housed tells when it is there
	case p.began(s.galleryID()):
		return p.makeDefinition(ctx, clients, s, mold, snapshotID)
	}
	definition, err := clients.definitions.Get(ctx, s.group, s.gallery(), s.definition(), nil)
	if isNotFound(err) {
		return p.makeDefinition(ctx, clients, s, mold, snapshotID)
	}
	if err != nil {
		return false, fail("look at", text("image definition "+s.definition()), err)
	}
	if err := checkDefinition(ctx, p, clients, s, definition.GalleryImage, mold, snapshotID); err != nil {
		return false, err
	}
	if definitionState(definition.GalleryImage) == armcompute.GalleryProvisioningStateFailed {
		return p.putDefinition(ctx, clients, s, definition.GalleryImage, snapshotID)
	}
	return p.settled(s.definitionID(), definitionState(definition.GalleryImage)), nil
}

func definitionState(definition armcompute.GalleryImage) armcompute.GalleryProvisioningState {
	if definition.Properties == nil {
		return ""
	}
	return value(definition.Properties.ProvisioningState)
}

// checkDefinition compares a definition that was found with what the pool needs.
func checkDefinition(ctx context.Context, p *ImageProvider, clients *clients, s scaleSet, definition armcompute.GalleryImage, mold cloud.ImageRequirements, snapshotID string) error {
	wanted, err := wantedFor(ctx, p, clients, s, mold, snapshotID)
	if err != nil {
		return err
	}
	if refusal := definitionMismatch(s, definition, wanted); refusal != nil {
		return &cloud.Error{Kind: cloud.Invalid, Op: "use", Resource: "image definition " + s.definition(), Code: refusal.Reason, Message: refusal.Message}
	}
	return nil
}

// wantedFor reads the snapshot for what its definition must be like, beside what the pool needs.
func wantedFor(ctx context.Context, p *ImageProvider, clients *clients, s scaleSet, mold cloud.ImageRequirements, snapshotID string) (definitionTraits, error) {
	disk, err := snapshotTraits(ctx, p, clients, s, snapshotID)
	return wantedTraits(disk, mold.Traits), err
}

// settled reads the state of a gallery or a definition that is no failure, and remembers one that is complete.
func (p *ImageProvider) settled(id string, state armcompute.GalleryProvisioningState) (ready bool) {
	switch state {
	case armcompute.GalleryProvisioningStateCreating, armcompute.GalleryProvisioningStateDeleting:
		return false
	default:
		p.learn(p.defined, id)
		return true
	}
}

// house is how far this process is with the gallery and the definition that a version would be in.
type house struct {
	// ready: both are there, or this process has nothing to do with their making.
	ready bool
	// fallen is the ID of one that could not be made; empty if none. why says so.
	fallen string
	why    error
}

// housed asks the operations by which this process makes the gallery or the definition how far they are. Until
// they have ended well, there is no version.
func (p *ImageProvider) housed(ctx context.Context, s scaleSet) (house, error) {
	for id, what := range map[string]text{s.galleryID(): text("gallery " + s.gallery()), s.definitionID(): text("image definition " + s.definition())} {
		if !p.began(id) || p.known(p.defined, id) {
			continue
		}
		done, err := p.ask(ctx, id)
		switch {
		case done && err != nil:
			return house{fallen: id, why: fail("make", what, err)}, nil
		case err != nil:
			err = fail("look at", what, err)
			if !cloud.Is(err, cloud.Throttled) && !cloud.Is(err, cloud.Unavailable) {
				p.forget(id) // the next look is at the resource itself
			}
			return house{}, err
		case !done:
			return house{}, nil
		}
		p.learn(p.defined, id)
	}
	return house{ready: true}, nil
}

// giveUp tells once why a gallery or a definition could not be made, to the one whose image it was made for;
// whoever comes next tries again.
func (p *ImageProvider) giveUp(h house, snapshotID string) error {
	if h.fallen == "" {
		return nil
	}
	mine := p.madeFor(h.fallen, snapshotID)
	p.forget(h.fallen)
	var why *cloud.Error
	if !mine || !errors.As(h.why, &why) {
		return nil
	}
	if why.Kind != cloud.QuotaExceeded {
		why.Kind = cloud.Invalid // it was accepted, and ended: waiting changes nothing
	}
	return why
}

// makeDefinition starts making the definition. Ready is true if Azure was done with it at once.
func (p *ImageProvider) makeDefinition(ctx context.Context, clients *clients, s scaleSet, mold cloud.ImageRequirements, snapshotID string) (ready bool, err error) {
	wanted, err := wantedFor(ctx, p, clients, s, mold, snapshotID)
	if err != nil {
		return false, err
	}
	ready, err = p.putDefinition(ctx, clients, s, newDefinition(s, mold, wanted), snapshotID)
	if err == nil {
		p.learn(p.empty, s.definitionID())
	}
	return ready, err
}

func (p *ImageProvider) putDefinition(ctx context.Context, clients *clients, s scaleSet, definition armcompute.GalleryImage, snapshotID string) (ready bool, err error) {
	poller, err := clients.definitions.BeginCreateOrUpdate(ctx, s.group, s.gallery(), s.definition(), definition, nil)
	if err != nil {
		return false, fail("make", text("image definition "+s.definition()), err)
	}
	return started(p, s.definitionID(), poller, snapshotID), nil
}

// started remembers the making of a gallery or a definition, and tells whether it is done already.
func started[T any](p *ImageProvider, id string, poller *runtime.Poller[T], snapshotID string) (ready bool) {
	remember(p.account, id, poller)
	p.makeFor(id, snapshotID)
	if poller.Done() {
		p.learn(p.defined, id)
	}
	return poller.Done()
}

// ensureGallery adopts the gallery or starts making it. One that Azure failed to make is made again as it is.
func (p *ImageProvider) ensureGallery(ctx context.Context, clients *clients, s scaleSet, mold cloud.ImageRequirements, snapshotID string) (ready bool, err error) {
	if p.known(p.defined, s.galleryID()) {
		return true, nil
	}
	if p.began(s.galleryID()) {
		return false, nil // as in ensureDefinition
	}
	got, err := clients.galleries.Get(ctx, s.group, s.gallery(), nil)
	gallery, absent := got.Gallery, isNotFound(err)
	switch {
	case absent:
		gallery = armcompute.Gallery{
			Location:   to.Ptr(mold.Location),
			Properties: &armcompute.GalleryProperties{Description: to.Ptr("Images of the node pools of resource group " + s.group + ", made by Kamino")},
		}
	case err != nil:
		return false, fail("look at", text("gallery "+s.gallery()), err)
	case galleryState(gallery) != armcompute.GalleryProvisioningStateFailed:
		return p.settled(s.galleryID(), galleryState(gallery)), nil
	}
	poller, err := clients.galleries.BeginCreateOrUpdate(ctx, s.group, s.gallery(), gallery, nil)
	if err != nil {
		return false, nameTaken(fail("make", text("gallery "+s.gallery()), err), s)
	}
	if absent {
		p.learn(p.empty, s.galleryID())
	}
	return started(p, s.galleryID(), poller, snapshotID), nil
}

func galleryState(gallery armcompute.Gallery) armcompute.GalleryProvisioningState {
	if gallery.Properties == nil {
		return ""
	}
	return value(gallery.Properties.ProvisioningState)
}

// nameTaken tells the one conflict that no second look will solve: a gallery of that name in another
// resource group. Azure's wording is unverified, so that any that speaks of the name is taken for it.
func nameTaken(err error, s scaleSet) error {
	var refused *cloud.Error
	if !errors.As(err, &refused) || refused.Kind != cloud.Conflict || !strings.Contains(strings.ToLower(refused.Message), "unique") {
		return err
	}
	refused.Kind = cloud.Invalid
	refused.Message += fmt.Sprintf(" (the pool's images need a gallery of that name in resource group %s: rename or delete the other one)", s.group)
	return refused
}
