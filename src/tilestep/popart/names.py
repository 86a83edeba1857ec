"""The names that PopART reserves: each function gives the beginning of the names of one kind of tensor.

A tensor's gradient is `reservedGradientPrefix() + id`, an optimizer's value for all tensors of a type is, as
`reservedDefaultScaledLearningRate0Prefix() + "FLOAT"`.
"""

from collections.abc import Callable as _Callable


def _prefix(text: str) -> _Callable[[], str]:
    def prefix() -> str:
        return text

    prefix.__doc__ = f"What such names begin with: `{text}`."
    return prefix


# Gradients and variables
reservedGradientPrefix = _prefix("Gradient___")
reservedUpdatedVarPrefix = _prefix("UpdatedVar___")
reservedFinalReducedGradPrefix = _prefix("FinalReducedGradient___")

# The optimizers' state
reservedAccumPrefix = _prefix("Accum___")
reservedAcclPrefix = _prefix("Accl___")
reservedAccl1Prefix = _prefix("Accl1___")
reservedAccl2Prefix = _prefix("Accl2___")
reservedAccl3Prefix = _prefix("Accl3___")
reservedStepPrefix = _prefix("Step___")
reservedAcclToReducePrefix = _prefix("AcclIntoReduce___")
reservedAcclToUpdatePrefix = _prefix("AcclIntoUpdate___")
reservedAcclFinalOutPrefix = _prefix("AcclOutOfAcclUpdate___")

# What the optimizers compute on the way
reservedAdamUpdaterPrefix = _prefix("AdamUpdater___")
reservedLambR1SqPrefix = _prefix("LambR1Sq___")
reservedLambR2SqPrefix = _prefix("LambR2Sq___")

# Recomputation, random seeds and remote buffers
reservedStashedPrefix = _prefix("Stashed___")
reservedRestoredPrefix = _prefix("Restored___")
reservedRandomSeedPrefix = _prefix("randomSeed___")
reservedSeedModifierPrefix = _prefix("randomSeedModifier___")
reservedRemoteArgPrefix = _prefix("RemoteArg___")

# The optimizers' values that the host may change: one for all tensors of a type, or one for a tensor
reservedDefaultWeightDecayScaleFactor0Prefix = _prefix("weightDecayScaleFactor0___default___")
reservedSpecificWeightDecayScaleFactor0Prefix = _prefix("weightDecayScaleFactor0___specific___")
reservedDefaultScaledLearningRate0Prefix = _prefix("scaledLearningRate0___default___")
reservedSpecificScaledLearningRate0Prefix = _prefix("scaledLearningRate0___specific___")
reservedDefaultScaledWeightDecay1Prefix = _prefix("scaledWeightDecay1___default___")
reservedSpecificScaledWeightDecay1Prefix = _prefix("scaledWeightDecay1___specific___")
reservedDefaultScaledLearningRate1Prefix = _prefix("scaledLearningRate1___default___")
reservedSpecificScaledLearningRate1Prefix = _prefix("scaledLearningRate1___specific___")
reservedDefaultDampeningScaleFactor1Prefix = _prefix("dampeningScaleFactor1___default___")
reservedSpecificDampeningScaleFactor1Prefix = _prefix("dampeningScaleFactor1___specific___")
reservedDefaultScaledMomentum1Prefix = _prefix("scaledMomentum1___default___")
reservedSpecificScaledMomentum1Prefix = _prefix("scaledMomentum1___specific___")
reservedDefaultLearningRatePrefix = _prefix("learningRate___default___")
reservedSpecificLearningRatePrefix = _prefix("learningRate___specific___")
reservedDefaultWeightDecayPrefix = _prefix("weightDecay___default___")
reservedSpecificWeightDecayPrefix = _prefix("weightDecay___specific___")
reservedDefaultLossScalingPrefix = _prefix("lossScaling___default___")
reservedSpecificLossScalingPrefix = _prefix("lossScaling___specific___")
reservedDefaultMaxWeightNormPrefix = _prefix("maxWeightNorm___default___")
reservedSpecificMaxWeightNormPrefix = _prefix("maxWeightNorm___specific___")
reservedDefaultAdamBeta1Prefix = _prefix("adamBeta1___default___")
reservedSpecificAdamBeta1Prefix = _prefix("adamBeta1___specific___")
reservedDefaultAdamBeta2Prefix = _prefix("adamBeta2___default___")
reservedSpecificAdamBeta2Prefix = _prefix("adamBeta2___specific___")
reservedDefaultAdamEpsPrefix = _prefix("adamEps___default___")
reservedSpecificAdamEpsPrefix = _prefix("adamEps___specific___")
reservedDefaultStepPrefix = _prefix("step___default___")
reservedSpecificStepPrefix = _prefix("step___specific___")
reservedLossScalingPrefix = _prefix("lossScaling_")
reservedAutomaticLossScalePrefix = _prefix("AutomaticLossScaleProxy___")
