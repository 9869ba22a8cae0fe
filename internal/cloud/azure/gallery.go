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

// text is a resource's description for errors.
type text string

func (t text) String() string { return string(t) }

// ensureDefinition starts to make a missing gallery, and then the definition; ready is false meanwhile. A definition of this
// process is not compared with the pool's requirements. A failed definition is made again unchanged.
func (p *ImageProvider) ensureDefinition(ctx context.Context, s scaleSet, requirements cloud.ImageRequirements, snapshotID string) (ready bool, err error) {
	if p.contains(p.defined, s.definitionID()) {
		return true, nil
	}
	clients, err := p.in(s)
	if err != nil {
		return false, err
	}
	if there, err := p.ensureGallery(ctx, clients, s, requirements, snapshotID); err != nil || !there {
		return false, err
	}
	switch {
	case p.hasStarted(s.definitionID()):
		return false, nil // another call is making the definition; housed reports the end
	case p.hasStarted(s.galleryID()):
		return p.makeDefinition(ctx, clients, s, requirements, snapshotID)
	}
	definition, err := clients.definitions.Get(ctx, s.group, s.gallery(), s.definition(), nil)
	if isNotFound(err) {
		return p.makeDefinition(ctx, clients, s, requirements, snapshotID)
	}
	if err != nil {
		return false, fail("read", text("image definition "+s.definition()), err)
	}
	if err := checkDefinition(ctx, p, clients, s, definition.GalleryImage, requirements, snapshotID); err != nil {
		return false, err
	}
	if definitionState(definition.GalleryImage) == armcompute.GalleryProvisioningStateFailed {
		return p.putDefinition(ctx, clients, s, definition.GalleryImage, snapshotID)
	}
	return settled(p, s.definitionID(), definitionState(definition.GalleryImage)), nil
}

func definitionState(definition armcompute.GalleryImage) armcompute.GalleryProvisioningState {
	if definition.Properties == nil {
		return ""
	}
	return value(definition.Properties.ProvisioningState)
}

// checkDefinition compares an existing definition with the pool's requirements.
func checkDefinition(ctx context.Context, p *ImageProvider, clients *clients, s scaleSet, definition armcompute.GalleryImage,
	requirements cloud.ImageRequirements, snapshotID string) error {
	wanted, err := wantedFor(ctx, p, clients, s, requirements, snapshotID)
	if err != nil {
		return err
	}
	if refusal := definitionMismatch(s, definition, wanted); refusal != nil {
		return &cloud.Error{Kind: cloud.Invalid, Op: "use", Resource: "image definition " + s.definition(), Code: refusal.Reason, Message: refusal.Message}
	}
	return nil
}

// wantedFor returns the definition's requirements from pool and snapshot.
func wantedFor(ctx context.Context, p *ImageProvider, clients *clients, s scaleSet, requirements cloud.ImageRequirements,
	snapshotID string) (definitionTraits, error) {
	disk, err := snapshotTraits(ctx, p, clients, s, snapshotID)
	return wantedTraits(disk, requirements.Traits), err
}

// settled returns whether a gallery or definition is complete, and remembers the completion. The state must not be a
// failure.
func settled(p *ImageProvider, id string, state armcompute.GalleryProvisioningState) (ready bool) {
	switch state {
	case armcompute.GalleryProvisioningStateCreating, armcompute.GalleryProvisioningStateDeleting:
		return false
	default:
		p.add(p.defined, id)
		return true
	}
}

// prerequisites is the state of gallery and definition in this process.
type prerequisites struct {
	// ready is true if both exist, or if this process makes neither.
	ready bool
	// failed is the ID of a failed gallery or definition; empty if there is no failure. why is the reason.
	failed string
	why    error
}

// pollPrerequisites polls this process's operations on gallery and definition. Until both succeed there is no version.
func (p *ImageProvider) pollPrerequisites(ctx context.Context, s scaleSet) (prerequisites, error) {
	for id, what := range map[string]text{s.galleryID(): text("gallery " + s.gallery()), s.definitionID(): text("image definition " + s.definition())} {
		if !p.hasStarted(id) || p.contains(p.defined, id) {
			continue
		}
		done, err := p.pollOperation(ctx, id)
		switch {
		case done && err != nil:
			return prerequisites{failed: id, why: fail("make", what, err)}, nil
		case err != nil:
			err = fail("read", what, err)
			if !cloud.Is(err, cloud.Throttled) && !cloud.Is(err, cloud.Unavailable) {
				p.forget(id) // the next read is of the resource itself
			}
			return prerequisites{}, err
		case !done:
			return prerequisites{}, nil
		}
		p.add(p.defined, id)
	}
	return prerequisites{ready: true}, nil
}

// reportFailure reports a failed gallery or definition once, to the capture that needed the resource. The next call tries again.
func reportFailure(p *ImageProvider, h prerequisites, snapshotID string) error {
	if h.failed == "" {
		return nil
	}
	mine := p.isRequester(h.failed, snapshotID)
	p.forget(h.failed)
	var why *cloud.Error
	if !mine || !errors.As(h.why, &why) {
		return nil
	}
	if why.Kind != cloud.QuotaExceeded {
		why.Kind = cloud.Invalid // accepted and failed, so waiting changes nothing
	}
	return why
}

// makeDefinition starts to make the definition. ready is true if Azure finished at once.
func (p *ImageProvider) makeDefinition(ctx context.Context, clients *clients, s scaleSet, requirements cloud.ImageRequirements,
	snapshotID string) (ready bool, err error) {
	wanted, err := wantedFor(ctx, p, clients, s, requirements, snapshotID)
	if err != nil {
		return false, err
	}
	ready, err = p.putDefinition(ctx, clients, s, newDefinition(s, requirements, wanted), snapshotID)
	if err == nil {
		p.add(p.empty, s.definitionID())
	}
	return ready, err
}

func (p *ImageProvider) putDefinition(ctx context.Context, clients *clients, s scaleSet, definition armcompute.GalleryImage,
	snapshotID string) (ready bool, err error) {
	poller, err := clients.definitions.BeginCreateOrUpdate(ctx, s.group, s.gallery(), s.definition(), definition, nil)
	if err != nil {
		return false, fail("make", text("image definition "+s.definition()), err)
	}
	return started(p, s.definitionID(), poller, snapshotID), nil
}

// started remembers the operation on a gallery or definition, and reports whether the operation is done.
func started[T any](p *ImageProvider, id string, poller *runtime.Poller[T], snapshotID string) (ready bool) {
	rememberOperation(p.account, id, poller)
	p.setRequester(id, snapshotID)
	if poller.Done() {
		p.add(p.defined, id)
	}
	return poller.Done()
}

// ensureGallery adopts the gallery or starts to make the gallery. A failed gallery is made again unchanged.
func (p *ImageProvider) ensureGallery(ctx context.Context, clients *clients, s scaleSet, requirements cloud.ImageRequirements,
	snapshotID string) (ready bool, err error) {
	if p.contains(p.defined, s.galleryID()) {
		return true, nil
	}
	if p.hasStarted(s.galleryID()) {
		return false, nil // as in ensureDefinition
	}
	got, err := clients.galleries.Get(ctx, s.group, s.gallery(), nil)
	gallery, absent := got.Gallery, isNotFound(err)
	switch {
	case absent:
		gallery = armcompute.Gallery{
			Location:   to.Ptr(requirements.Location),
			Properties: &armcompute.GalleryProperties{Description: to.Ptr("Images of the node pools of resource group " + s.group + ", made by Kamino")},
		}
	case err != nil:
		return false, fail("read", text("gallery "+s.gallery()), err)
	case galleryState(gallery) != armcompute.GalleryProvisioningStateFailed:
		return settled(p, s.galleryID(), galleryState(gallery)), nil
	}
	poller, err := clients.galleries.BeginCreateOrUpdate(ctx, s.group, s.gallery(), gallery, nil)
	if err != nil {
		return false, nameTaken(fail("make", text("gallery "+s.gallery()), err), s)
	}
	if absent {
		p.add(p.empty, s.galleryID())
	}
	return started(p, s.galleryID(), poller, snapshotID), nil
}

func galleryState(gallery armcompute.Gallery) armcompute.GalleryProvisioningState {
	if gallery.Properties == nil {
		return ""
	}
	return value(gallery.Properties.ProvisioningState)
}

// nameTaken recognizes the only permanent conflict: a gallery of the same name in another resource group. Azure's wording
// is unverified, so any text with "unique" matches.
func nameTaken(err error, s scaleSet) error {
	var refused *cloud.Error
	if !errors.As(err, &refused) || refused.Kind != cloud.Conflict || !strings.Contains(strings.ToLower(refused.Message), "unique") {
		return err
	}
	refused.Kind = cloud.Invalid
	refused.Message += fmt.Sprintf(" (the pool's images need a gallery of the same name in resource group %s: delete the other gallery)", s.group)
	return refused
}
