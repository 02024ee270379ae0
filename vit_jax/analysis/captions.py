"""What a reader sees in each figure of a report, by the name of its file."""

# In the order of the page: what happened, then the errors, then confidence.
CAPTIONS = {
    "training_curves": (
        "Loss and accuracy while the model learned. Train is measured on augmented "
        "images, so that it may lie below val. The dotted line marks the checkpoint "
        "that the run selected, and thin ones the beginning of each later stage."
    ),
    "confusion_matrix": (
        "Each row is a true class and adds up to 100%. The diagonal is right; a "
        "dark cell beside it is a frequent mistake."
    ),
    "top_confusions": (
        "The pairs of classes that make the most mistakes, and their part of all "
        "mistakes."
    ),
    "per_class_accuracy": ("Bars whose intervals overlap widely may well be equal."),
    "precision_recall_f1": (
        "Precision: how many predictions of a class are right. Recall: how many of "
        "its images are found. F1 is between them. The error bars are 95% intervals."
    ),
    "confident_mistakes": (
        "The mistakes that the model is surest of. Look for wrong labels, for two "
        "things in one image, and for misleading backgrounds."
    ),
    "misclassified": ("Some of all mistakes, drawn at random."),
    "sample_predictions": ("Some images, drawn at random."),
    "reliability": (
        "Bars on the diagonal mean that of the images with 70% confidence 70% are "
        "right. Below it (orange gaps) the model is too sure. The lowest row counts "
        "images."
    ),
    "confidence_by_class": (
        "A wrong answer should come with less confidence than a right one. Where "
        "both bars are high, confidence warns of nothing."
    ),
    "roc": (
        "How many images of a class are found for how many false alarms, as the "
        "threshold moves. Nearer to the upper left corner is better."
    ),
    "accuracy_on_both_test_sets": (
        "Two test splits; the second one was taken from the training images of the "
        "dataset."
    ),
    "subset_test_confusion_matrix": ("The second test split."),
    "disagreements_with_people": ("The images on which model and people differ most."),
}


def caption(name: str) -> str:
    """The caption of a report's figure; "" for figures that are not of a report.

    Galleries of one confusion have one in common.
    """
    if name.startswith("confusion_") and name not in CAPTIONS:
        return "All images of one confusion, or the most confident of them."
    return CAPTIONS.get(name, "")


def in_order(names: list[str]) -> list[str]:
    """Names of figures in the order of the page; others come last."""
    order = list(CAPTIONS)
    return sorted(names, key=lambda n: order.index(n) if n in order else len(order))
